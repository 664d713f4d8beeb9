"""B6. Answers NaN, hoping that NaN compares as equal or not at all.

task: rmsnorm_scale
tier: closed
expect: interpret: wrong-values
why: NaN must be where the oracle has it, and nowhere else.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    nothing = (acc - acc) / (acc - acc)
    return {"y": nothing * rstd}
