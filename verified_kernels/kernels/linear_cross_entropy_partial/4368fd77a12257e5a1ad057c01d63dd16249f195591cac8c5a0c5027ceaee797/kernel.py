"""Logits, target logit and log-sum-exp."""

from codasmith.primitives import epilogue, row_lse, select


@epilogue
def linear_cross_entropy_partial(acc, target):
    return {"logits": acc, "target_logit": select(acc, target), "lse": row_lse(acc)}
