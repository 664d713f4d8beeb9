"""RMSNorm of each head."""
from codasmith.primitives import epilogue, head_sum, rsqrt

@epilogue
def linear_qknorm_fp8(acc, x_scale, w_scale, gamma):
    acc = acc * x_scale * w_scale
    rstd = rsqrt(head_sum(acc * acc, 128) / 128 + 1e-06)
    return {'y': acc * rstd * gamma}
