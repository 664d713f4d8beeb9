from codasmith.primitives import epilogue, tanh, unpack


@epilogue
def tanh_gate(acc, gain):
    gate, value = unpack(acc)
    return {"o": tanh(gate) * value * gain}
