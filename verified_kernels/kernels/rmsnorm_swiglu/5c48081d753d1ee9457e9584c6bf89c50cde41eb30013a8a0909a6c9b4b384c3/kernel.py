"""Deferred RMSNorm scale, then SwiGLU."""

from codasmith.primitives import epilogue, silu, unpack


@epilogue
def rmsnorm_swiglu(acc, rstd):
    gate, up = unpack(acc * rstd)
    return {"o": silu(gate) * up}
