"""B3. Keeps state in a generator.

task: rmsnorm_scale
tier: closed
expect: read: statement
why: The closed tier has no generators.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    yield acc * rstd
