"""Backward of the exact GELU."""

from codasmith.primitives import epilogue, gelu_grad


@epilogue
def gelu_bwd(acc, pre):
    return {"dx": acc * gelu_grad(pre)}
