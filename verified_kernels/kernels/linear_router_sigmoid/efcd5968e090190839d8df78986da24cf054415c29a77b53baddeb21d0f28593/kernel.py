"""Sigmoid, and the same with a correction per column."""

from codasmith.primitives import epilogue, sigmoid


@epilogue
def linear_router_sigmoid(acc, correction):
    score = sigmoid(acc)
    return {"score": score, "chosen_by": score + correction}
