"""Each row's log-sum-exp and target logit; the logits are not stored."""

from codasmith.primitives import epilogue, row_lse, select


@epilogue
def project(acc, target):
    return {"lse": row_lse(acc), "picked": select(acc, target)}
