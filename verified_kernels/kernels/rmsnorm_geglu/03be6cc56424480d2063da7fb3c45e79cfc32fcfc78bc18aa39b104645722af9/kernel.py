"""Row scale, then GEGLU in the tanh form."""

from codasmith.primitives import epilogue, gelu_tanh, unpack


@epilogue
def rmsnorm_geglu(acc, rstd):
    gate, up = unpack(acc * rstd)
    return {"o": gelu_tanh(gate) * up}
