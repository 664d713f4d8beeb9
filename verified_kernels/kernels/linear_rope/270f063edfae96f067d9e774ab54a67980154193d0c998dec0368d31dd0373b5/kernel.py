"""Rotary embedding from a table of alternating cos, sin."""

from codasmith.primitives import epilogue, rotate, unpack


@epilogue
def linear_rope(acc, table):
    cos, sin = unpack(table)
    return {"y": rotate(acc, cos, sin)}
