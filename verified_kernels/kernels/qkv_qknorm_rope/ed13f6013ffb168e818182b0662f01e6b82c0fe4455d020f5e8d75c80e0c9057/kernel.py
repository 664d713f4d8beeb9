"""RMSNorm of each head where its weight is not zero, rotary embedding; the projection is stored too."""

from codasmith.primitives import epilogue, head_sum, rotate, rsqrt, unpack


@epilogue
def project(acc, gamma, plain, table, eps):
    rstd = rsqrt(head_sum(acc * acc, 128) / 128 + eps)
    cos, sin = unpack(table)
    return {"y": rotate(acc * (rstd * gamma + plain), cos, sin), "q": acc}
