"""Bias, then one weight a row."""

from codasmith.primitives import epilogue


@epilogue
def moe_down_weighted(acc, bias, router):
    return {"y": router * (acc + bias)}
