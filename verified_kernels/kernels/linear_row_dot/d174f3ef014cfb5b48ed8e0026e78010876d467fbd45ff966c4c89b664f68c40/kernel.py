"""Gradient with its row dot product."""

from codasmith.primitives import epilogue, row_sum


@epilogue
def linear_row_dot(acc, y):
    return {"grad_y": acc, "ydy": row_sum(y, acc)}
