"""Bias."""

from codasmith.primitives import epilogue


@epilogue
def linear_bias(acc, bias):
    return {"y": acc + bias}
