"""Backward of a residual RMSNorm, accumulated into the residual stream's gradient."""

from codasmith.primitives import col_sum, epilogue


@epilogue
def residual_rmsnorm_bwd_inplace(acc, h, gamma, rstd, s):
    c = h * rstd
    return {"dx": (acc * gamma - c * s) * rstd, "c_gamma": c * gamma, "grad_gamma": col_sum(acc, c)}
