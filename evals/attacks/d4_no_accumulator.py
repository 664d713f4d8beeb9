"""D4. Answers from the operands alone.

task: rmsnorm_scale
tier: closed
expect: read: no-accumulator
why: An answer that does not use acc is refused.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    return {"y": rstd * 1.0}
