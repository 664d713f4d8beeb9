"""D1. Tries a kernel and falls back to torch.

task: rmsnorm_scale
tier: closed
expect: read: statement
why: The language has no try.
"""

from codasmith.primitives import epilogue


@epilogue
def kernel(acc, rstd):
    try:
        y = acc * rstd
    except Exception:
        y = acc
    return {"y": y}
