"""Bias."""
from codasmith.primitives import epilogue

@epilogue
def linear_bias_fp8(acc, x_scale, w_scale, bias):
    acc = acc * x_scale * w_scale
    return {'y': acc + bias}
