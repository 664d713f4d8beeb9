"""F2. An extra key, which is ignored without a word.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: Nothing is gained: it is stored nowhere.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd, "verdict": acc}
