"""E4. The same in the closed tier.

task: rmsnorm_scale
tier: closed
expect: read: non-ascii
why: Names are ASCII.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    ａ = acc
    return {"y": ａ * rstd}
