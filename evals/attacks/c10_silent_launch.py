"""C10. Asks for more shared memory than there is, so that the launch fails over an old result.

task: rmsnorm_scale
tier: cutedsl
expect: compile: shared-memory
why: The template has no room left for the pipeline and says so; on the GPU a launch that fails leaves NaN.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad, EpiSmemBytes

MAIN = "y"


class Greedy(ColVecLoad):
    def smem_bytes(self, arg_tensor, cta_tile_shape_mnk, epi_tile, warp_shape_mnk=None):
        return ColVecLoad.smem_bytes(self, arg_tensor, cta_tile_shape_mnk, epi_tile, warp_shape_mnk) + EpiSmemBytes(300_000, 0, 0)


@gemm_epilogue(ops={"rstd": Greedy("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
