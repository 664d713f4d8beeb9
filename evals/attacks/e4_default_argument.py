"""E4. A default that is evaluated when the file is imported.

task: rmsnorm_scale
tier: closed
expect: read: default-argument
why: The language has no defaults.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd=open("@MARK@", "w")):
    return {"y": acc * rstd}
