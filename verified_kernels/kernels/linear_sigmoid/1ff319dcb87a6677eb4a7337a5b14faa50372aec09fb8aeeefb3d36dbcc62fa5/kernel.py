"""Sigmoid."""

from codasmith.primitives import epilogue, sigmoid


@epilogue
def linear_sigmoid(acc):
    return {"y": sigmoid(acc)}
