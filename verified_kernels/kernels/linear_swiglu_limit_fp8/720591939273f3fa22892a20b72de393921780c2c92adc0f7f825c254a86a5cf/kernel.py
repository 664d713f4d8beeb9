"""Clamped SwiGLU with a bias."""
from codasmith.primitives import clamp, epilogue, minimum, sigmoid, unpack

@epilogue
def linear_swiglu_limit_fp8(acc, x_scale, w_scale, bias, alpha, limit):
    acc = acc * x_scale * w_scale
    gate, up = unpack(acc + bias)
    gate = minimum(gate, limit)
    up = clamp(up, -limit, limit)
    return {'o': (up + 1.0) * gate * sigmoid(alpha * gate)}
