"""A7. Counts its calls and behaves differently later.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: The Python function is traced once, while it compiles; what is launched has no counter.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

calls = [0]

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    if calls[0] > 100:
        return {"D": acc}
    return {"D": acc * rstd}
