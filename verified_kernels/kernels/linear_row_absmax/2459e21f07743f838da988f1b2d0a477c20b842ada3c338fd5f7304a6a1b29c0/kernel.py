"""Bias, and the largest magnitude of each row."""

from codasmith.primitives import epilogue, row_absmax


@epilogue
def linear_row_absmax(acc, bias):
    y = acc + bias
    return {"y": y, "absmax": row_absmax(y)}
