"""Bias, then a rotation of column pairs."""

from codasmith.primitives import epilogue, rotate, unpack


@epilogue
def linear_bias_rope(acc, bias, table):
    cos, sin = unpack(table)
    return {"y": rotate(acc + bias, cos, sin)}
