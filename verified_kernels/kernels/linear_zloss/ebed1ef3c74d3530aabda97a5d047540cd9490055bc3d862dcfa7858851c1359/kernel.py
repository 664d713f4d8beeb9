"""Router logits and their log-sum-exp."""

from codasmith.primitives import epilogue, row_lse


@epilogue
def linear_zloss(acc, bias):
    logits = acc + bias
    return {"logits": logits, "lse": row_lse(logits)}
