"""Bias, then SiLU."""

from codasmith.primitives import epilogue, silu


@epilogue
def linear_bias_silu(acc, bias):
    return {"y": silu(acc + bias)}
