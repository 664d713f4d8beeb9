"""Backward of the exact GELU, and the column sums that are the bias gradient."""

from codasmith.primitives import col_sum, epilogue, gelu_grad


@epilogue
def gelu_bwd_bias_grad(acc, pre):
    dx = acc * gelu_grad(pre)
    return {"dx": dx, "dbias": col_sum(dx)}
