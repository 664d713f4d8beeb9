"""A4. Imports ctypes to patch native code.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: ctypes is no import of a candidate.
"""

import ctypes
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

library = ctypes.CDLL(None)
library.mprotect(0, 4096, 7)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
