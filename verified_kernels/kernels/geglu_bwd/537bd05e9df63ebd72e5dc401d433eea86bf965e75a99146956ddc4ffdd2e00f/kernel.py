"""Backward of GEGLU in the tanh form, and its value.

0.5 (1 + tanh(y)) = sigmoid(2 y): the derivative is then free of the cancellation in 1 - tanh(y)^2.
"""

from codasmith.primitives import epilogue, pack, sigmoid, unpack


@epilogue
def geglu_bwd(acc, z):
    gate, up = unpack(z)
    square = gate * gate
    s = sigmoid(gate * (1.595769121605731 + 0.07135481627260025 * square))
    activated = gate * s
    slope = s + (activated - activated * s) * (1.595769121605731 + 0.21406444881780075 * square)
    return {"dz": pack(acc * up * slope, acc * activated), "o": activated * up}
