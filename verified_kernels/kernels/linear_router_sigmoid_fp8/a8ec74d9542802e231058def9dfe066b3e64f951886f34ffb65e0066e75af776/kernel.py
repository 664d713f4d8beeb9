"""Sigmoid, and the same with a correction per column."""
from codasmith.primitives import epilogue, sigmoid

@epilogue
def linear_router_sigmoid_fp8(acc, x_scale, w_scale, correction):
    acc = acc * x_scale * w_scale
    score = sigmoid(acc)
    return {'score': score, 'chosen_by': score + correction}
