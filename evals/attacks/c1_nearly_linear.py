"""C1. The identity where softcap is nearly the identity.

task: linear_softcap
tier: closed
expect: interpret: wrong-values
why: Inputs reach past the cap in several families.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, cap):
    return {"y": acc + 0.0 * cap}
