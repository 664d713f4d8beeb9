"""SwiGLU with the pre-activation stored."""
from codasmith.primitives import epilogue, silu, unpack

@epilogue
def linear_swiglu_fp8(acc, x_scale, w_scale):
    acc = acc * x_scale * w_scale
    gate, up = unpack(acc)
    return {'z': acc, 'o': silu(gate) * up}
