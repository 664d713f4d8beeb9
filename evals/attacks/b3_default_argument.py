"""B3. Keeps state in a default argument.

task: rmsnorm_scale
tier: closed
expect: read: default-argument
why: The closed tier's functions have no defaults.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd, memory=[]):
    return {"y": acc * rstd}
