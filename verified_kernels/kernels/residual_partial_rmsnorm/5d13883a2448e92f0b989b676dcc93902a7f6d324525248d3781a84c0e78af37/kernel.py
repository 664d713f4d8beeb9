"""Residual stream, its product with the norm's weight, and row sums of squares."""

from codasmith.primitives import epilogue, row_sum


@epilogue
def residual_partial_rmsnorm(acc, residual, gamma):
    h = acc + residual
    return {"h": h, "g": h * gamma, "sumsq": row_sum(h, h)}
