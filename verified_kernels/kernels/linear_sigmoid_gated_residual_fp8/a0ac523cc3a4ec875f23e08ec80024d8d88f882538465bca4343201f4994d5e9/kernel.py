"""Residual branch behind a gate that is a tile of logits."""
from codasmith.primitives import epilogue, sigmoid

@epilogue
def linear_sigmoid_gated_residual_fp8(acc, x_scale, w_scale, residual, gate):
    acc = acc * x_scale * w_scale
    return {'y': residual + sigmoid(gate) * acc}
