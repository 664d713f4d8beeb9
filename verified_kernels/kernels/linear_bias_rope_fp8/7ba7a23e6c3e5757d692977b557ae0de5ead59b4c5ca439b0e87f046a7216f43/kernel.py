"""Bias, then a rotation of column pairs."""
from codasmith.primitives import epilogue, rotate, unpack

@epilogue
def linear_bias_rope_fp8(acc, x_scale, w_scale, bias, table):
    acc = acc * x_scale * w_scale
    cos, sin = unpack(table)
    return {'y': rotate(acc + bias, cos, sin)}
