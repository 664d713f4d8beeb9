"""Backward of SwiGLU with the norm's row statistic, backward of the norm and residual, and four plain products."""

from codasmith.primitives import col_sum, epilogue, pack, row_sum, sigmoid, unpack


@epilogue
def gates(acc, z):
    gate, up = unpack(z)
    s = sigmoid(gate)
    activated = gate * s
    d_gate = acc * up * (s + activated * (1.0 - s))
    d_up = acc * activated
    return {"dz": pack(d_gate, d_up), "o": activated * up, "zdz": row_sum(gate * d_gate + up * d_up)}


@epilogue
def weight_down(acc):
    return {"dw_down": acc}


@epilogue
def norm(acc, h, gamma, rstd, s, dy):
    c = h * rstd
    return {"dx": (acc * gamma - c * s) * rstd + dy, "g": c * gamma, "dgamma": col_sum(acc, c)}


@epilogue
def weight_up(acc):
    return {"dw_up": acc}


@epilogue
def input(acc):
    return {"da": acc}


@epilogue
def weight_o(acc):
    return {"dw_o": acc}
