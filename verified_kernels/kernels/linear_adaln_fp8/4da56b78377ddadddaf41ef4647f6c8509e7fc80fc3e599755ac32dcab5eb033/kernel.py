"""Deferred LayerNorm with modulated weights."""
from codasmith.primitives import epilogue

@epilogue
def linear_adaln_fp8(acc, x_scale, w_scale, mean, rstd, u, v):
    acc = acc * x_scale * w_scale
    return {'y': rstd * (acc - mean * u) + v}
