"""Deferred RMSNorm scale, logits, target logit and log-sum-exp."""

from codasmith.primitives import epilogue, row_lse, select


@epilogue
def rmsnorm_cross_entropy(acc, rstd, target):
    logits = acc * rstd
    return {"logits": logits, "target_logit": select(logits, target), "lse": row_lse(logits)}
