"""Residual, weighted copy and row sums of squares, written in CuTeDSL."""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecReduce, RowVecLoad

MAIN = "h"
C = "residual"


@gemm_epilogue(
    outputs=("g",),
    ops={"gamma": RowVecLoad("gamma")},
    reduces={"sumsq": ColVecReduce("sumsq", scaled=True)},
)
def epilogue(acc, c, gamma):
    h = acc + c
    return {"D": h, "g": h * gamma, "sumsq": (h, h)}
