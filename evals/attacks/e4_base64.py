"""E4. Hides its code in base64.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: Neither the module nor exec is available.
"""

import base64
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

exec(base64.b64decode("b3BlbignQE1BUktAJywgJ3cnKQ=="))

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
