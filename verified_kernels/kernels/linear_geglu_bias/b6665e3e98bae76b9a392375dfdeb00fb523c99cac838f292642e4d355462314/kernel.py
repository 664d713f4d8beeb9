"""Bias, then GEGLU in the tanh form."""

from codasmith.primitives import epilogue, gelu_tanh, unpack


@epilogue
def linear_geglu_bias(acc, bias):
    gate, up = unpack(acc + bias)
    return {"o": gelu_tanh(gate) * up}
