"""ReGLU."""

from codasmith.primitives import epilogue, relu, unpack


@epilogue
def linear_reglu(acc):
    gate, up = unpack(acc)
    return {"o": relu(gate) * up}
