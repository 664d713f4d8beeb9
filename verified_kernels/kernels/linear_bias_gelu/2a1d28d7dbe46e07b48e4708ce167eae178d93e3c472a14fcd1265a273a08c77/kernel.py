"""Bias and exact GELU."""

from codasmith.primitives import epilogue, gelu


@epilogue
def linear_bias_gelu(acc, bias):
    return {"y": gelu(acc + bias)}
