"""Clipped outputs."""

from codasmith.primitives import clamp, epilogue


@epilogue
def linear_clamp(acc, low, high):
    return {"y": clamp(acc, low, high)}
