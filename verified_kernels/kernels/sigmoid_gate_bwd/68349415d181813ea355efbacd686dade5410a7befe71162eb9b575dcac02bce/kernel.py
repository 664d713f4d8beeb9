"""Backward of a sigmoid gate, to both sides."""

from codasmith.primitives import epilogue, sigmoid, sigmoid_grad


@epilogue
def sigmoid_gate_bwd(acc, o, gate):
    return {"d_o": acc * sigmoid(gate), "d_gate": acc * o * sigmoid_grad(gate)}
