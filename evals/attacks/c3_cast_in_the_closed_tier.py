"""C3. Asks for a lower precision in the closed tier.

task: rmsnorm_scale
tier: closed
expect: read: attribute
why: The language has no dtypes.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    return {"y": acc.half() * rstd}
