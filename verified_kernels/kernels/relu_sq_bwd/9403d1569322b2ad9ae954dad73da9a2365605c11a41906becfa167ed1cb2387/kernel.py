"""Backward of the squared ReLU, and its value."""

from codasmith.primitives import epilogue, relu_sq, relu_sq_grad


@epilogue
def relu_sq_bwd(acc, pre):
    return {"dx": acc * relu_sq_grad(pre), "a": relu_sq(pre)}
