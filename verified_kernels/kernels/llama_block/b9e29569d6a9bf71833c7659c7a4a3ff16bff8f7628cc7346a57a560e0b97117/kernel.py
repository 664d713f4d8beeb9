"""Residual and partial RMSNorm; the norm's scale and SwiGLU; residual and partial RMSNorm; scale and rotation."""

from codasmith.primitives import epilogue, rotate, row_sum, silu, unpack


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
def down(acc, h, gamma_next):
    y = acc + h
    return {"y": y, "g_next": y * gamma_next, "sumsq_next": row_sum(y, y)}


@epilogue
def project(acc, rstd_next, table):
    cos, sin = unpack(table)
    return {"qkv": rotate(acc * rstd_next, cos, sin)}
