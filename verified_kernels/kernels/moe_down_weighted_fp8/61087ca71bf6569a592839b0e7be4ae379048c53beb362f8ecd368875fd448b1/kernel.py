"""Bias, then one weight a row."""
from codasmith.primitives import epilogue

@epilogue
def moe_down_weighted_fp8(acc, x_scale, w_scale, bias, router):
    acc = acc * x_scale * w_scale
    return {'y': router * (acc + bias)}
