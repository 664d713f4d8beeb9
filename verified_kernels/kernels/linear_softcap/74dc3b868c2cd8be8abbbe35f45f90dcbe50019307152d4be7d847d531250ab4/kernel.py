"""Smoothly limited logits."""

from codasmith.primitives import epilogue, softcap


@epilogue
def linear_softcap(acc, cap):
    return {"y": softcap(acc, cap)}
