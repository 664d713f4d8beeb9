"""Deferred RMSNorm: one scale a row."""

from codasmith.primitives import epilogue


@epilogue
def rmsnorm_scale(acc, rstd):
    return {"y": acc * rstd}
