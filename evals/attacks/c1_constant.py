"""C1. A constant where the answer is near it.

task: linear_sigmoid
tier: closed
expect: interpret: wrong-values
why: sigmoid varies over its whole range on the inputs.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc):
    return {"y": acc * 0.0 + 0.5}
