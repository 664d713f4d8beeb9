"""Soft cap, target logit, log-sum-exp."""
from codasmith.primitives import epilogue, row_lse, select, softcap

@epilogue
def softcap_cross_entropy_fp8(acc, x_scale, w_scale, cap, target):
    acc = acc * x_scale * w_scale
    logits = softcap(acc, cap)
    return {'logits': logits, 'target_logit': select(logits, target), 'lse': row_lse(logits)}
