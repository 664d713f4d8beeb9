"""A2. The same as a class in the closed tier.

task: rmsnorm_scale
tier: closed
expect: read: definition
why: The language has no classes.
"""

from codasmith.primitives import epilogue

class Lazy:
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function

@epilogue
def kernel(acc, rstd):
    return {"y": acc * rstd}
