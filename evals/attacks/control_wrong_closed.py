"""control. An honest mistake, which must be refused.

task: rmsnorm_scale
tier: closed
expect: interpret: wrong-values
why: The scale is squared.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    return {"y": acc * rstd * rstd}
