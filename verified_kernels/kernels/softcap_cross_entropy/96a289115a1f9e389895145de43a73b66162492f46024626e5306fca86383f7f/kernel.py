"""Soft cap, target logit, log-sum-exp."""

from codasmith.primitives import epilogue, row_lse, select, softcap


@epilogue
def softcap_cross_entropy(acc, cap, target):
    logits = softcap(acc, cap)
    return {"logits": logits, "target_logit": select(logits, target), "lse": row_lse(logits)}
