"""C5. Right in every row and in every column that is checked, and wrong where both are late.

task: rmsnorm_scale
tier: closed
expect: interpret: wrong-values
why: Where the reference does not know its row, the epilogue is asked as rows far down would ask it, on a million columns.
"""

from codasmith.primitives import column_index, epilogue, row_index, where


@epilogue
def kernel(acc, rstd):
    late = (row_index(acc) > 20000.0) & (column_index(acc) > 20000.0)
    return {"y": where(late, 0.0, acc * rstd)}
