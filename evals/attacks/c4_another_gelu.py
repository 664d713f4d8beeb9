"""C4. The tanh form of GELU instead of the exact one.

task: linear_bias_gelu
tier: closed
expect: interpret: wrong-values
why: The forms differ by a thousand times what float32 rounding explains.
"""

from codasmith.primitives import epilogue, gelu_tanh


@epilogue
def kernel(acc, bias):
    return {"y": gelu_tanh(acc + bias)}
