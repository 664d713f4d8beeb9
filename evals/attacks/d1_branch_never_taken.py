"""D1. Hides a kernel behind a branch that is never taken.

task: rmsnorm_scale
tier: closed
expect: read: control-flow
why: The language has no branches.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    if False:
        return {"y": acc * rstd}
    return {"y": acc}
