"""RMSNorm of each head, then rotary embedding from a table of alternating cos, sin."""

from codasmith.primitives import epilogue, head_sum, rotate, rsqrt, unpack


@epilogue
def linear_qknorm_rope(acc, gamma, table):
    rstd = rsqrt(head_sum(acc * acc, 128) / 128 + 1e-6)
    cos, sin = unpack(table)
    return {"y": rotate(acc * rstd * gamma, cos, sin)}
