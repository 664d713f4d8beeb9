"""Sigmoid."""
from codasmith.primitives import epilogue, sigmoid

@epilogue
def linear_sigmoid_fp8(acc, x_scale, w_scale):
    acc = acc * x_scale * w_scale
    return {'y': sigmoid(acc)}
