"""C5. Right on every size that is checked, and wrong in the rows beyond.

task: rmsnorm_scale
tier: closed
expect: interpret: wrong-values
why: An epilogue that asks for its row is compared with the reference on a million of them.
"""

from codasmith.primitives import epilogue, row_index, where


@epilogue
def kernel(acc, rstd):
    return {"y": where(row_index(acc) < 500000.0, acc * rstd, 0.0)}
