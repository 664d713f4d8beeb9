"""The norm's scale and rotary embedding."""

from codasmith.primitives import epilogue, rotate, unpack


@epilogue
def project(acc, rstd, table):
    cos, sin = unpack(table)
    return {"qkv": rotate(acc * rstd, cos, sin)}
