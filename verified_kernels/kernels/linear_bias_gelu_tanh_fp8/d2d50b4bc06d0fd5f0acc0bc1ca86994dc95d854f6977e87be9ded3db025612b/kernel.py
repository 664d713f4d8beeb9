"""Bias, then GELU in its tanh form."""
from codasmith.primitives import epilogue, gelu_tanh

@epilogue
def linear_bias_gelu_tanh_fp8(acc, x_scale, w_scale, bias):
    acc = acc * x_scale * w_scale
    return {'y': gelu_tanh(acc + bias)}
