"""Softmax of capped logits minus one-hot, times the cap's derivative.

tanh(y) = 2 s - 1 with s = sigmoid(2 y), so its derivative is 4 s (1 - s), without the cancellation of 1 - tanh(y)^2.
"""

from codasmith.primitives import column_index, epilogue, exp, minimum, reciprocal, sigmoid, where


@epilogue
def softcap_dlogits(acc, cap, lse, target):
    s = sigmoid(acc * (2.0 * reciprocal(cap)))
    probability = exp(minimum(cap * (2.0 * s - 1.0) - lse, 0.0))
    error = where(column_index(acc) == target, probability - 1.0, probability)
    return {"dlogits": error * (4.0 * s * (1.0 - s))}
