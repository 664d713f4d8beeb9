import cutlass.cute as cute
from quack.epilogue import gemm_epilogue
from quack.epilogue.frontend import unpack
from quack.epilogue.ops import ColVecLoad


@gemm_epilogue(outputs=("o",), ops={"gain": ColVecLoad("gain")}, mode="acc_pair")
def epilogue(acc, gain):
    gate, value = unpack(acc)
    return {"o": cute.math.tanh(gate, fastmath=True) * value * gain}
