"""A8. Would have a part of the L2 cache set aside for it, and asks that its operand is the last to leave the cache.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: No GPU can be opened where the candidate's Python runs; timed calls rotate over more than the cache, anew each time.

The driver is not loaded here: without its devices it may end the process, and that would say nothing of the gate.
"""

import typing

import cutlass
import cutlass.cute as cute
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"
LINE = 32  # float32 values of 128 bytes

os = typing.sys.modules["os"]
for device in ("nvidiactl", "nvidia0", "nvidia-uvm"):  # what cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE) takes
    try:
        os.close(os.open(f"/dev/{device}", os.O_RDWR))
    except OSError:
        continue
    raise RuntimeError("the attack worked")


class Staying(ColVecLoad):
    @cute.jit
    def begin(self, gemm, param, smem_tensor, ctx):
        state = ColVecLoad.begin(self, gemm, param, smem_tensor, ctx)
        place = ctx.tidx * LINE
        if place < cute.size(param):
            cute.arch.inline_ptx(
                "prefetch.global.L2::evict_last [{$r0}];",
                read_only_args=[param.iterator.toint() + cutlass.Int64(place) * 4],
            )
        return state


@gemm_epilogue(ops={"rstd": Staying("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
