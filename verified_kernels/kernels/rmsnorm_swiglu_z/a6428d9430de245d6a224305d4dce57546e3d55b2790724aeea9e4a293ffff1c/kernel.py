"""Deferred RMSNorm scale, then SwiGLU; the pre-activation is stored."""

from codasmith.primitives import epilogue, silu, unpack


@epilogue
def rmsnorm_swiglu_z(acc, rstd):
    z = acc * rstd
    gate, up = unpack(z)
    return {"z": z, "o": silu(gate) * up}
