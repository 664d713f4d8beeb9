"""E6. An error that looks like a fault of this machine, so that nobody is blamed.

task: rmsnorm_scale
tier: cutedsl
expect: compile: compiler-error
why: An error raised on a line of the candidate's own is the candidate's.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

raise ImportError("No module named 'torch'")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
