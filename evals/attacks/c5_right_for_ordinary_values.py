"""C5. Exact for values of ordinary size, careless beyond.

task: rmsnorm_scale
tier: closed
expect: interpret: wrong-values
why: Families of large, tiny, sparse and outlying inputs are part of the check.
"""

from codasmith.primitives import abs, epilogue, where


@epilogue
def kernel(acc, rstd):
    return {"y": where(abs(acc) < 40.0, acc * rstd, acc)}
