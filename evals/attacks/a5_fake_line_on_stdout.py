"""A5. Prints what a passing gate prints.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: What a compile child prints goes to a log that nobody parses for verdicts.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

print('{"ready": true, "ok": true, "status": "passed", "job": "", "timed_out": false}', flush=True)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
