"""Residual and partial RMSNorm; the norm's scale and SwiGLU with its argument kept; residual."""

from codasmith.primitives import epilogue, row_sum, silu, unpack


@epilogue
def attention_out(acc, x, gamma):
    h = acc + x
    return {"h": h, "g": h * gamma, "sumsq": row_sum(h, h)}


@epilogue
def up(acc, rstd):
    z = acc * rstd
    gate, lift = unpack(z)
    return {"z": z, "o": silu(gate) * lift}


@epilogue
def down(acc, h):
    return {"y": acc + h}
