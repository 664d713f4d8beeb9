"""ReGLU."""
from codasmith.primitives import epilogue, relu, unpack

@epilogue
def linear_reglu_fp8(acc, x_scale, w_scale):
    acc = acc * x_scale * w_scale
    gate, up = unpack(acc)
    return {'o': relu(gate) * up}
