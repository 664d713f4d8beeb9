"""E4. Code in a docstring.

task: rmsnorm_scale
tier: closed
expect: checked
why: It is text, and nothing evaluates it.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    """>>> open('@MARK@', 'w')"""
    return {"y": acc * rstd}
