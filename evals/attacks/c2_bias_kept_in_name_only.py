"""C2. Reads the bias and multiplies it away.

task: linear_bias
tier: closed
expect: interpret: wrong-values
why: The operand is exchanged alone: the answer must follow the reference's.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, bias):
    return {"y": acc + bias * 0.0}
