"""Bias and squared ReLU."""

from codasmith.primitives import epilogue, relu_sq


@epilogue
def linear_bias_relu_sq(acc, bias):
    return {"y": relu_sq(acc + bias)}
