"""Logits, target logit and log-sum-exp."""
from codasmith.primitives import epilogue, row_lse, select

@epilogue
def linear_cross_entropy_partial_fp8(acc, x_scale, w_scale, target):
    acc = acc * x_scale * w_scale
    return {'logits': acc, 'target_logit': select(acc, target), 'lse': row_lse(acc)}
