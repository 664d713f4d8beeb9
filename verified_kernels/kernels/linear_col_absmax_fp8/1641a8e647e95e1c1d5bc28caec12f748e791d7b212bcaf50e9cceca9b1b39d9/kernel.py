"""Bias, and the largest magnitude of each column."""
from codasmith.primitives import col_absmax, epilogue

@epilogue
def linear_col_absmax_fp8(acc, x_scale, w_scale, bias):
    acc = acc * x_scale * w_scale
    y = acc + bias
    return {'y': y, 'absmax': col_absmax(y)}
