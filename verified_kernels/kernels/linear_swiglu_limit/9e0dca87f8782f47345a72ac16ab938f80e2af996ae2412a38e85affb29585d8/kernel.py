"""Clamped SwiGLU with a bias."""

from codasmith.primitives import clamp, epilogue, minimum, sigmoid, unpack


@epilogue
def linear_swiglu_limit(acc, bias, alpha, limit):
    gate, up = unpack(acc + bias)
    gate = minimum(gate, limit)
    up = clamp(up, -limit, limit)
    return {"o": (up + 1.0) * gate * sigmoid(alpha * gate)}
