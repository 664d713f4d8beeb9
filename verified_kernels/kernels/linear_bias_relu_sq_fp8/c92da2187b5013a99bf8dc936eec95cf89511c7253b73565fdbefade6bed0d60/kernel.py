"""Bias and squared ReLU."""
from codasmith.primitives import epilogue, relu_sq

@epilogue
def linear_bias_relu_sq_fp8(acc, x_scale, w_scale, bias):
    acc = acc * x_scale * w_scale
    return {'y': relu_sq(acc + bias)}
