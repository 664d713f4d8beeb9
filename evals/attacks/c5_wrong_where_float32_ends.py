"""C5. Right in float64 wherever one looks; where float32 has no odd numbers left, every other late row is wrong.

task: rmsnorm_scale
tier: closed
expect: interpret: wrong-values
why: An epilogue that knows its place is computed in float32 too, as a kernel would, on a million rows.
"""

from codasmith.primitives import epilogue, row_index, where


@epilogue
def kernel(acc, rstd):
    row = row_index(acc)
    late = (row + 16677216.0) - 16677216.0 != row
    return {"y": where(late, 0.0, acc * rstd)}
