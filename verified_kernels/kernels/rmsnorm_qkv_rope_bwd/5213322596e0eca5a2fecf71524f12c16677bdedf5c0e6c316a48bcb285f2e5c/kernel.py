"""Backward of the norm, and a plain product."""

from codasmith.primitives import col_sum, epilogue


@epilogue
def norm(acc, x, gamma, rstd, s):
    c = x * rstd
    return {"dx": (acc * gamma - c * s) * rstd, "g": c * gamma, "dgamma": col_sum(acc, c)}


@epilogue
def weight_qkv(acc):
    return {"dw_qkv": acc}
