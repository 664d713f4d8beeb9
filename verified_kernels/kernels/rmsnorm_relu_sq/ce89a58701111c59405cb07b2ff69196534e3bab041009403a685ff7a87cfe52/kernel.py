"""Row scale, then the squared ReLU."""

from codasmith.primitives import epilogue, relu_sq


@epilogue
def rmsnorm_relu_sq(acc, rstd):
    return {"y": relu_sq(acc * rstd)}
