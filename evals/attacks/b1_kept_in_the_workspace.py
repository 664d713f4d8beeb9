"""B1. Device code that sees in its own workspace that it was here before, and leaves what it wrote then.

task: linear_row_absmax
tier: cutedsl
expect: timing: timed-output-wrong
why: Each timed turn has content that no call has seen, and some are compared with the reference.

A sink's partials lie in memory that lives as long as the buffers do.  A magnitude is never negative and the shared
block's filling is, so a slot tells whether an earlier launch wrote it; each lane asks only for a row that it writes
itself.  Numerics and guards repeat a call on the same content only, where old partials are right, and the other
output follows each input: so it was on an H200 on 2026-11-29.
"""

import cutlass
import cutlass.cute as cute
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecReduce, RowVecLoad

MAIN = "y"


class Remembering(ColVecReduce):
    @cute.jit
    def end_loop_finish(self, gemm, param, staged, tile_coord_mnkl, varlen_manager):
        rows, swaps, slices, wide, lane = staged[1], staged[6], staged[7], staged[8], staged[9]
        own = rows[(lane % slices) * wide if cutlass.const_expr(swaps) else 0][0]
        row = tile_coord_mnkl[0] * gemm.cta_tile_shape_mnk[0] + own
        if row < param.shape[1] and tile_coord_mnkl[1] < param.shape[2]:
            if param[tile_coord_mnkl[3], row, tile_coord_mnkl[1]] < 0.0:
                ColVecReduce.end_loop_finish(self, gemm, param, staged, tile_coord_mnkl, varlen_manager)


@gemm_epilogue(ops={"bias": RowVecLoad("bias")}, outs={"absmax": Remembering("absmax", combine="max_abs")})
def epilogue(acc, bias):
    y = acc + bias
    return {"D": y, "absmax": y}
