"""Backward of SwiGLU behind the down projection, then three plain products."""

from codasmith.primitives import epilogue, pack, sigmoid, unpack


@epilogue
def gates(acc, z):
    gate, up = unpack(z)
    s = sigmoid(gate)
    activated = gate * s
    d_gate = acc * up * (s + activated * (1.0 - s))
    return {"dz": pack(d_gate, acc * activated), "o": activated * up}


@epilogue
def weight_down(acc):
    return {"dw_down": acc}


@epilogue
def input(acc):
    return {"dx": acc}


@epilogue
def weight_up(acc):
    return {"dw_up": acc}
