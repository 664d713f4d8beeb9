"""RMSNorm of each head, then rotary embedding from a table of alternating cos, sin."""
from codasmith.primitives import epilogue, head_sum, rotate, rsqrt, unpack

@epilogue
def linear_qknorm_rope_fp8(acc, x_scale, w_scale, gamma, table):
    acc = acc * x_scale * w_scale
    rstd = rsqrt(head_sum(acc * acc, 128) / 128 + 1e-06)
    cos, sin = unpack(table)
    return {'y': rotate(acc * rstd * gamma, cos, sin)}
