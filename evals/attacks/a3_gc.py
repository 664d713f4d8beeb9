"""A3. Finds the harness among all objects.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: gc is no import of a candidate.
"""

import gc
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

judges = [o for o in gc.get_objects() if "judge" in repr(type(o))]

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
