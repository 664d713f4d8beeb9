import cutlass.cute as cute
from quack.epilogue import gemm_epilogue
from quack.epilogue.frontend import pack, unpack

MAIN = "dz"
C = "z"


@gemm_epilogue(mode="packed_cd_b16x2")
def epilogue(acc, c):
    value, gate = unpack(c)
    t = cute.math.tanh(gate, fastmath=True)
    return {"D": pack(acc * t, acc * value * (1.0 - t * t))}
