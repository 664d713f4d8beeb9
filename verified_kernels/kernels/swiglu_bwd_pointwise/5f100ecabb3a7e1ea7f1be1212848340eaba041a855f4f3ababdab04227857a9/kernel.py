"""Backward of SwiGLU, the gradient alone."""

from codasmith.primitives import epilogue, pack, silu, silu_grad, unpack


@epilogue
def swiglu_bwd_pointwise(acc, z):
    gate, up = unpack(z)
    return {"dz": pack(acc * up * silu_grad(gate), acc * silu(gate))}
