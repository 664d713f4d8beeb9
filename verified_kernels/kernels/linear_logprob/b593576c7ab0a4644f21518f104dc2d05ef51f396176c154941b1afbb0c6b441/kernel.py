"""Temperature, target logit, log-sum-exp."""

from codasmith.primitives import epilogue, row_lse, select


@epilogue
def linear_logprob(acc, inverse_temperature, target):
    logits = acc * inverse_temperature
    return {"target_logit": select(logits, target), "lse": row_lse(logits)}
