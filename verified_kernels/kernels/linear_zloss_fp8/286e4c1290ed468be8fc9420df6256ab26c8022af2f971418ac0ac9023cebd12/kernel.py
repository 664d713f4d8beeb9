"""Router logits and their log-sum-exp."""
from codasmith.primitives import epilogue, row_lse

@epilogue
def linear_zloss_fp8(acc, x_scale, w_scale, bias):
    acc = acc * x_scale * w_scale
    logits = acc + bias
    return {'logits': logits, 'lse': row_lse(logits)}
