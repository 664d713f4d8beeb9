"""control. An honest sink of its own, which looks at its workspace and always writes it; it must pass.

task: linear_row_absmax
tier: cutedsl
expect: checked
why: The control of b1_kept_in_the_workspace: the same reads, and the work is done each time.
"""

import cutlass
import cutlass.cute as cute
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecReduce, RowVecLoad

MAIN = "y"


class Looking(ColVecReduce):
    @cute.jit
    def end_loop_finish(self, gemm, param, staged, tile_coord_mnkl, varlen_manager):
        rows, swaps, slices, wide, lane = staged[1], staged[6], staged[7], staged[8], staged[9]
        own = rows[(lane % slices) * wide if cutlass.const_expr(swaps) else 0][0]
        row = tile_coord_mnkl[0] * gemm.cta_tile_shape_mnk[0] + own
        if row < param.shape[1] and tile_coord_mnkl[1] < param.shape[2]:
            if param[tile_coord_mnkl[3], row, tile_coord_mnkl[1]] < 0.0:
                ColVecReduce.end_loop_finish(self, gemm, param, staged, tile_coord_mnkl, varlen_manager)
            else:
                ColVecReduce.end_loop_finish(self, gemm, param, staged, tile_coord_mnkl, varlen_manager)


@gemm_epilogue(ops={"bias": RowVecLoad("bias")}, outs={"absmax": Looking("absmax", combine="max_abs")})
def epilogue(acc, bias):
    y = acc + bias
    return {"D": y, "absmax": y}
