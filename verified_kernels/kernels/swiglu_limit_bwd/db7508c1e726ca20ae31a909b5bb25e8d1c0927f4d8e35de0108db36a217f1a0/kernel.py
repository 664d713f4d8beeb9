"""Backward of the limited SwiGLU, and its value."""

from codasmith.primitives import abs, clamp, epilogue, minimum, pack, sigmoid, unpack, where


@epilogue
def swiglu_limit_bwd(acc, z, alpha, limit):
    raw_gate, raw_up = unpack(z)
    gate = minimum(raw_gate, limit)
    up = clamp(raw_up, -limit, limit) + 1.0
    s = sigmoid(alpha * gate)
    activated = gate * s
    d_gate = where(raw_gate < limit, acc * up * (s + alpha * activated * (1.0 - s)), 0.0)
    d_up = where(abs(raw_up) < limit, acc * activated, 0.0)
    return {"dz": pack(d_gate, d_up), "o": up * activated}
