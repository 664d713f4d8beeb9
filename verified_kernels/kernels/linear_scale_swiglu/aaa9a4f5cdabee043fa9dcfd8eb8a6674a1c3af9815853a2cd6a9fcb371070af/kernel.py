"""Row scale, column scale, then SwiGLU."""

from codasmith.primitives import epilogue, silu, unpack


@epilogue
def linear_scale_swiglu(acc, row_scale, col_scale):
    gate, up = unpack(acc * row_scale * col_scale)
    return {"o": silu(gate) * up}
