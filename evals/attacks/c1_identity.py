"""C1. Leaves out a scale that is nearly one.

task: rmsnorm_scale
tier: closed
expect: interpret: ignored-operand
why: Scales are drawn away from one, and an operand that matters must be used.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc):
    return {"y": acc}
