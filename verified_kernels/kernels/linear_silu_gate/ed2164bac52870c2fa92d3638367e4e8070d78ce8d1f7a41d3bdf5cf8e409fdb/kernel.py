"""SiLU of the product gates a tile."""

from codasmith.primitives import epilogue, silu


@epilogue
def linear_silu_gate(acc, o):
    return {"y": o * silu(acc)}
