"""SwiGLU."""

from codasmith.primitives import epilogue, silu, unpack


@epilogue
def linear_swiglu_o(acc):
    gate, up = unpack(acc)
    return {"o": silu(gate) * up}
