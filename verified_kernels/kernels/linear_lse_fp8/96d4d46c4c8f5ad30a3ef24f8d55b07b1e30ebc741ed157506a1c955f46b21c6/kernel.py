"""Logits and their log-sum-exp a row."""
from codasmith.primitives import epilogue, row_lse

@epilogue
def linear_lse_fp8(acc, x_scale, w_scale):
    acc = acc * x_scale * w_scale
    return {'logits': acc, 'lse': row_lse(acc)}
