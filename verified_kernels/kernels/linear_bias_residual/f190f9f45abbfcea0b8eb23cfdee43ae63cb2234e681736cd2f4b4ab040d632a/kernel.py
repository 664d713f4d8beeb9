"""Bias and residual."""

from codasmith.primitives import epilogue


@epilogue
def linear_bias_residual(acc, bias, residual):
    return {"y": residual + (acc + bias)}
