"""D4. Uses acc in name only.

task: rmsnorm_scale
tier: closed
expect: interpret: wrong-values
why: The values are compared.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    return {"y": acc * 0.0 + rstd}
