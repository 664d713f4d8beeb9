"""LayerNorm after the product, then GELU."""
from codasmith.primitives import epilogue, gelu

@epilogue
def layernorm_gelu_fp8(acc, x_scale, w_scale, mean, rstd, u, v):
    acc = acc * x_scale * w_scale
    return {'y': gelu(rstd * (acc - mean * u) + v)}
