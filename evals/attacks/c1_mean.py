"""C1. The expected value of a sum instead of the sum.

task: residual_layernorm_stats
tier: closed
expect: interpret: wrong-values
why: Compared element by element, in maximum and in root mean square.
"""

from codasmith.primitives import epilogue, row_sum


@epilogue
def kernel(acc, residual):
    h = acc + residual
    return {"h": h, "sums": row_sum(h * 0.0), "sumsq": row_sum(h, h)}
