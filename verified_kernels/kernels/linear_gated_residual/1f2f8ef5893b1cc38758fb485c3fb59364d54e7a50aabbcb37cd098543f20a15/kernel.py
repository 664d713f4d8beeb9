"""Gated residual branch."""

from codasmith.primitives import epilogue


@epilogue
def linear_gated_residual(acc, residual, gate, bias):
    return {"y": residual + gate * (acc + bias)}
