"""D2. The same from the closed tier.

task: rmsnorm_scale
tier: closed
expect: read: attribute
why: The language has no attributes.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    return {"y": torch.mm(acc, rstd)}
