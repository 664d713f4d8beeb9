"""SwiGLU."""
from codasmith.primitives import epilogue, silu, unpack

@epilogue
def linear_swiglu_o_fp8(acc, x_scale, w_scale):
    acc = acc * x_scale * w_scale
    gate, up = unpack(acc)
    return {'o': silu(gate) * up}
