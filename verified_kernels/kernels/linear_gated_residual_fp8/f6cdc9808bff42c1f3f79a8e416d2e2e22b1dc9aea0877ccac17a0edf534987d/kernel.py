"""Gated residual branch."""
from codasmith.primitives import epilogue

@epilogue
def linear_gated_residual_fp8(acc, x_scale, w_scale, residual, gate, bias):
    acc = acc * x_scale * w_scale
    return {'y': residual + gate * (acc + bias)}
