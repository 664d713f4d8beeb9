"""Deferred LayerNorm with modulated weights."""

from codasmith.primitives import epilogue


@epilogue
def linear_adaln(acc, mean, rstd, u, v):
    return {"y": rstd * (acc - mean * u) + v}
