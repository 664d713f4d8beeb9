"""E3. Makes the reader itself work without end.

task: rmsnorm_scale
tier: closed
expect: read: too-large
why: An epilogue has a limited number of operations.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    x = acc * rstd
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    x = x + x * 0.5
    return {"y": x}
