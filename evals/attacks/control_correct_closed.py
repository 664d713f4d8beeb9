"""control. A correct epilogue, which must pass.

task: rmsnorm_scale
tier: closed
expect: checked
why: Nothing is wrong with it.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    return {"y": acc * rstd}
