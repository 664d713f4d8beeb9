"""LayerNorm after the product, then GELU."""

from codasmith.primitives import epilogue, gelu


@epilogue
def layernorm_gelu(acc, mean, rstd, u, v):
    return {"y": gelu(rstd * (acc - mean * u) + v)}
