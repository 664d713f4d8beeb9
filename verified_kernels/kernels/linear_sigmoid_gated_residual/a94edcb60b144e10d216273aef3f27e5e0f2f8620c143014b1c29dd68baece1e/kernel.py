"""Residual branch behind a gate that is a tile of logits."""

from codasmith.primitives import epilogue, sigmoid


@epilogue
def linear_sigmoid_gated_residual(acc, residual, gate):
    return {"y": residual + sigmoid(gate) * acc}
