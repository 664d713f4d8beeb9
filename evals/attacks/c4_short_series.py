"""C4. A few terms of a series instead of the function.

task: linear_sigmoid
tier: closed
expect: interpret: wrong-values
why: Large inputs are drawn too.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc):
    return {"y": 0.5 + acc * 0.25 - acc * acc * acc * 0.0208333333}
