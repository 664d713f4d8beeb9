"""Bias, and the largest magnitude of each column."""

from codasmith.primitives import col_absmax, epilogue


@epilogue
def linear_col_absmax(acc, bias):
    y = acc + bias
    return {"y": y, "absmax": col_absmax(y)}
