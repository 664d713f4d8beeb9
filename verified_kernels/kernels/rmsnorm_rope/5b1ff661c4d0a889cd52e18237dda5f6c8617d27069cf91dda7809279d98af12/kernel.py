"""Deferred RMSNorm scale, then rotary embedding."""

from codasmith.primitives import epilogue, rotate, unpack


@epilogue
def rmsnorm_rope(acc, rstd, table):
    cos, sin = unpack(table)
    return {"y": rotate(acc * rstd, cos, sin)}
