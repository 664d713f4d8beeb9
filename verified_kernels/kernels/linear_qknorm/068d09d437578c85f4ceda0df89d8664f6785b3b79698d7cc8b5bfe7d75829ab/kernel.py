"""RMSNorm of each head."""

from codasmith.primitives import epilogue, head_sum, rsqrt


@epilogue
def linear_qknorm(acc, gamma):
    rstd = rsqrt(head_sum(acc * acc, 128) / 128 + 1e-6)
    return {"y": acc * rstd * gamma}
