"""E4. A call at the top of the file.

task: rmsnorm_scale
tier: closed
expect: read: statement
why: Only imports, constants and functions stand there.
"""

from codasmith.primitives import epilogue

open("@MARK@", "w")

@epilogue
def kernel(acc, rstd):
    return {"y": acc * rstd}
