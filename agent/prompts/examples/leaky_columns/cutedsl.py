import cutlass
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad, ColVecReduce, RowVecLoad

MAIN = "o"


@gemm_epilogue(
    ops={"gain": ColVecLoad("gain"), "shift": RowVecLoad("shift")},
    outs={"peak": ColVecReduce("peak", combine="max_abs")},
)
def epilogue(acc, gain, shift):
    y = acc * gain + shift
    return {"D": cutlass.select_(y > 0.0, y, y * 0.125), "peak": y}
