"""E4. Code in an annotation.

task: rmsnorm_scale
tier: closed
expect: read: annotation
why: The language has no annotations.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc: "open('@MARK@', 'w')", rstd):
    return {"y": acc * rstd}
