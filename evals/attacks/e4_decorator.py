"""E4. A decorator that does something when it is applied.

task: rmsnorm_scale
tier: closed
expect: read: decorator
why: The only decorator is the bare name epilogue.
"""

from codasmith.primitives import epilogue


@epilogue
@print
def kernel(acc, rstd):
    return {"y": acc * rstd}
