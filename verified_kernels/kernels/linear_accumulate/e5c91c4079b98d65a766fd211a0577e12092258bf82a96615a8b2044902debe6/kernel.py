"""Accumulate a weight gradient in float32."""

from codasmith.primitives import epilogue


@epilogue
def linear_accumulate(acc):
    return {"dw": acc}
