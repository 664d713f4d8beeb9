"""Bias, then GEGLU in the tanh form."""
from codasmith.primitives import epilogue, gelu_tanh, unpack

@epilogue
def linear_geglu_bias_fp8(acc, x_scale, w_scale, bias):
    acc = acc * x_scale * w_scale
    gate, up = unpack(acc + bias)
    return {'o': gelu_tanh(gate) * up}
