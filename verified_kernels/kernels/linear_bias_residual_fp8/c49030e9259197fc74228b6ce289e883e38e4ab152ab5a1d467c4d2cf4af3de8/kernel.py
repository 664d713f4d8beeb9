"""Bias and residual."""
from codasmith.primitives import epilogue

@epilogue
def linear_bias_residual_fp8(acc, x_scale, w_scale, bias, residual):
    acc = acc * x_scale * w_scale
    return {'y': residual + (acc + bias)}
