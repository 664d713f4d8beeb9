"""SiLU."""

from codasmith.primitives import epilogue, silu


@epilogue
def linear_silu(acc):
    return {"y": silu(acc)}
