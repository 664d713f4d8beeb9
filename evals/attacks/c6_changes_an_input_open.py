"""C6. The same from device code, by a load that stores.

task: rmsnorm_scale
tier: cutedsl
expect: guards: guard-input-changed
why: Inputs are compared with copies taken before the run.
"""

import cutlass.cute as cute
from cutlass import Float32
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"


class Tampering(ColVecLoad):
    @cute.jit
    def begin(self, gemm, param, smem_tensor, ctx):
        state = ColVecLoad.begin(self, gemm, param, smem_tensor, ctx)
        if ctx.tidx == 0:
            param[0, 0] = Float32(1.0)
        return state


@gemm_epilogue(ops={"rstd": Tampering("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
