"""B3. Keeps state in an attribute of its function.

task: rmsnorm_scale
tier: closed
expect: read: attribute
why: The closed tier has no attributes.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    return {"y": acc * rstd}


kernel.calls = 0
