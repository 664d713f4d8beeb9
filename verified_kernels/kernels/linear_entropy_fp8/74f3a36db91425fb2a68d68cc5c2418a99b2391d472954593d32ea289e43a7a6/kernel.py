"""Row sums of probability times logit, and the target logit."""
from codasmith.primitives import epilogue, exp, minimum, row_sum, select

@epilogue
def linear_entropy_fp8(acc, x_scale, w_scale, lse, target):
    acc = acc * x_scale * w_scale
    probability = exp(minimum(acc - lse, 0.0))
    return {'expected': row_sum(probability, acc), 'target_logit': select(acc, target)}
