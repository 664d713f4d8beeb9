"""Row sums of probability times logit, and the target logit."""

from codasmith.primitives import epilogue, exp, minimum, row_sum, select


@epilogue
def linear_entropy(acc, lse, target):
    probability = exp(minimum(acc - lse, 0.0))
    return {"expected": row_sum(probability, acc), "target_logit": select(acc, target)}
