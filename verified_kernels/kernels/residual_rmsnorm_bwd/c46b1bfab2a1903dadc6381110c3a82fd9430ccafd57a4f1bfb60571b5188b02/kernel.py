"""Backward of a residual RMSNorm with the statistic moved to the producer."""

from codasmith.primitives import col_sum, epilogue


@epilogue
def residual_rmsnorm_bwd(acc, h, gamma, rstd, s, residual_grad):
    c = h * rstd
    grad_h = (acc * gamma - c * s) * rstd + residual_grad
    return {"grad_h": grad_h, "c_gamma": c * gamma, "grad_gamma": col_sum(acc, c)}
