"""Scaled product plus scaled residual."""

from codasmith.primitives import epilogue


@epilogue
def linear_alpha_beta_residual(acc, residual, alpha, beta):
    return {"y": alpha * acc + beta * residual}
