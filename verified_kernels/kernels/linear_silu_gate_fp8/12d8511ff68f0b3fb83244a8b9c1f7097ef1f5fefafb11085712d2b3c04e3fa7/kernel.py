"""SiLU of the product gates a tile."""
from codasmith.primitives import epilogue, silu

@epilogue
def linear_silu_gate_fp8(acc, x_scale, w_scale, o):
    acc = acc * x_scale * w_scale
    return {'y': o * silu(acc)}
