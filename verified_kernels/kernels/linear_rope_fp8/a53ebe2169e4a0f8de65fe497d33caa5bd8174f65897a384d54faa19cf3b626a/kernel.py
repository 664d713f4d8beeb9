"""Rotary embedding from a table of alternating cos, sin."""
from codasmith.primitives import epilogue, rotate, unpack

@epilogue
def linear_rope_fp8(acc, x_scale, w_scale, table):
    acc = acc * x_scale * w_scale
    cos, sin = unpack(table)
    return {'y': rotate(acc, cos, sin)}
