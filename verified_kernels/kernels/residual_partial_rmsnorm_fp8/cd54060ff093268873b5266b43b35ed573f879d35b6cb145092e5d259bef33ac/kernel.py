"""Residual stream, its product with the norm's weight, and row sums of squares."""
from codasmith.primitives import epilogue, row_sum

@epilogue
def residual_partial_rmsnorm_fp8(acc, x_scale, w_scale, residual, gamma):
    acc = acc * x_scale * w_scale
    h = acc + residual
    return {'h': h, 'g': h * gamma, 'sumsq': row_sum(h, h)}
