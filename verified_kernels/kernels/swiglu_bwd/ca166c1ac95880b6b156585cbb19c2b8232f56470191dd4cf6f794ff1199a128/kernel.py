"""Backward of SwiGLU; the row statistic is summed over the two gradients of each pair."""

from codasmith.primitives import epilogue, pack, row_sum, sigmoid, unpack


@epilogue
def swiglu_bwd(acc, z):
    gate, up = unpack(z)
    s = sigmoid(gate)
    activated = gate * s
    d_gate = acc * up * (s + activated * (1.0 - s))
    d_up = acc * activated
    return {"dz": pack(d_gate, d_up), "o": activated * up, "zdz": row_sum(gate * d_gate + up * d_up)}
