"""Low-rank update, scaled by row."""

from codasmith.primitives import epilogue


@epilogue
def linear_lora(acc, delta, scale):
    return {"y": acc + scale * delta}
