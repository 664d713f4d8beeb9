"""Deferred RMSNorm scale, logits, target logit and log-sum-exp."""
from codasmith.primitives import epilogue, row_lse, select

@epilogue
def rmsnorm_cross_entropy_fp8(acc, x_scale, w_scale, rstd, target):
    acc = acc * x_scale * w_scale
    logits = acc * rstd
    return {'logits': logits, 'target_logit': select(logits, target), 'lse': row_lse(logits)}
