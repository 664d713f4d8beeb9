"""Bias and exact GELU."""
from codasmith.primitives import epilogue, gelu

@epilogue
def linear_bias_gelu_fp8(acc, x_scale, w_scale, bias):
    acc = acc * x_scale * w_scale
    return {'y': gelu(acc + bias)}
