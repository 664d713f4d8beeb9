"""F3. A helper reached as an attribute, which quack's digest of the function does not see.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: Objects are kept by the digest of the whole file, and each is built in a process of its own.
"""

import functools

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"
functools.helper = lambda x, s: x * s


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": functools.helper(acc, rstd)}
