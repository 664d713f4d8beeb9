"""Logits and their log-sum-exp a row."""

from codasmith.primitives import epilogue, row_lse


@epilogue
def linear_lse(acc):
    return {"logits": acc, "lse": row_lse(acc)}
