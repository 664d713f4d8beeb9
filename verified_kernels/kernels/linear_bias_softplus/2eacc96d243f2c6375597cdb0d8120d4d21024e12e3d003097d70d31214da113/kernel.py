"""Bias, then softplus."""

from codasmith.primitives import epilogue, softplus


@epilogue
def linear_bias_softplus(acc, bias):
    return {"delta": softplus(acc + bias)}
