"""Temperature, target logit, log-sum-exp."""
from codasmith.primitives import epilogue, row_lse, select

@epilogue
def linear_logprob_fp8(acc, x_scale, w_scale, inverse_temperature, target):
    acc = acc * x_scale * w_scale
    logits = acc * inverse_temperature
    return {'target_logit': select(logits, target), 'lse': row_lse(logits)}
