"""C2. Ignores a bias, which is zero when a model starts.

task: linear_bias
tier: closed
expect: interpret: ignored-operand
why: Every operand is drawn away from its neutral value, and exchanged alone.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc):
    return {"y": acc}
