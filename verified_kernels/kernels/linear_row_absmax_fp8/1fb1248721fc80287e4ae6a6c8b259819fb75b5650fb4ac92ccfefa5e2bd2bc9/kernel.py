"""Bias, and the largest magnitude of each row."""
from codasmith.primitives import epilogue, row_absmax

@epilogue
def linear_row_absmax_fp8(acc, x_scale, w_scale, bias):
    acc = acc * x_scale * w_scale
    y = acc + bias
    return {'y': y, 'absmax': row_absmax(y)}
