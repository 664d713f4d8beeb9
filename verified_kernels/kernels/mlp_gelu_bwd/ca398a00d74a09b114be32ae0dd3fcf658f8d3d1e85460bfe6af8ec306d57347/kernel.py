"""Backward of GELU behind the down projection with the gradient of the bias before it, then three plain products."""

from codasmith.primitives import col_sum, epilogue, gelu, gelu_grad


@epilogue
def activation(acc, pre):
    dpre = acc * gelu_grad(pre)
    return {"dpre": dpre, "o": gelu(pre), "db_up": col_sum(dpre)}


@epilogue
def weight_down(acc):
    return {"dw_down": acc}


@epilogue
def input(acc):
    return {"dx": acc}


@epilogue
def weight_up(acc):
    return {"dw_up": acc}
