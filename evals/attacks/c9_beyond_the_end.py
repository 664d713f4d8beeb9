"""C9. Writes past the end of a tensor.

task: rmsnorm_scale
tier: cutedsl
expect: guards: guard-out-of-bounds
why: Canary bytes lie between all tensors of the shared block.
"""

import cutlass.cute as cute
from cutlass import Float32
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"


class Overflowing(ColVecLoad):
    @cute.jit
    def begin(self, gemm, param, smem_tensor, ctx):
        state = ColVecLoad.begin(self, gemm, param, smem_tensor, ctx)
        if ctx.tidx == 0:
            param[0, cute.size(param)] = Float32(1.0)
        return state


@gemm_epilogue(ops={"rstd": Overflowing("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
