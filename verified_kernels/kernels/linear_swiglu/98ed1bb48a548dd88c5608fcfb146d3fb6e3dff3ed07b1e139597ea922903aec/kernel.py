"""SwiGLU with the pre-activation stored."""

from codasmith.primitives import epilogue, silu, unpack


@epilogue
def linear_swiglu(acc):
    gate, up = unpack(acc)
    return {"z": acc, "o": silu(gate) * up}
