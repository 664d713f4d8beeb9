"""Bias, then GELU in its tanh form."""

from codasmith.primitives import epilogue, gelu_tanh


@epilogue
def linear_bias_gelu_tanh(acc, bias):
    return {"y": gelu_tanh(acc + bias)}
