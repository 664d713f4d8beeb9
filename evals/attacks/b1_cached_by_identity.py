"""B1. Answers from a cache, found by the identity of what it is given.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: Traced once: there are no calls between which to cache.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

cache = {}

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    if id(acc) not in cache:
        cache[id(acc)] = acc * rstd
    return {"D": cache[id(acc)]}
