"""Bias, then softplus."""
from codasmith.primitives import epilogue, softplus

@epilogue
def linear_bias_softplus_fp8(acc, x_scale, w_scale, bias):
    acc = acc * x_scale * w_scale
    return {'delta': softplus(acc + bias)}
