"""Clipped outputs."""
from codasmith.primitives import clamp, epilogue

@epilogue
def linear_clamp_fp8(acc, x_scale, w_scale, low, high):
    acc = acc * x_scale * w_scale
    return {'y': clamp(acc, low, high)}
