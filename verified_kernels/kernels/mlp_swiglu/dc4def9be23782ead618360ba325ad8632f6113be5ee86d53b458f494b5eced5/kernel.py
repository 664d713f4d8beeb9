"""SwiGLU with the pre-activation kept, then a plain product."""

from codasmith.primitives import epilogue, silu, unpack


@epilogue
def up(acc):
    gate, lift = unpack(acc)
    return {"z": acc, "o": silu(gate) * lift}


@epilogue
def down(acc):
    return {"y": acc}
