"""Logits, with each row's log-sum-exp and target logit."""

from codasmith.primitives import epilogue, row_lse, select


@epilogue
def project(acc, target):
    return {"logits": acc, "lse": row_lse(acc), "picked": select(acc, target)}
