"""C6. Changes an input so that the reference, computed later, agrees.

task: rmsnorm_scale
tier: closed
expect: read: unknown-output
why: An output must be the task's; on the GPU inputs are compared with copies.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    return {"y": acc, "rstd": acc * 0.0 + 1.0}
