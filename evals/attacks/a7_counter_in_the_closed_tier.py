"""A7. The same with a global counter in the closed tier.

task: rmsnorm_scale
tier: closed
expect: read: statement
why: The language has no state.
"""

from codasmith.primitives import epilogue

calls = 0

@epilogue
def kernel(acc, rstd):
    global calls
    calls = calls + 1
    return {"y": acc * rstd}
