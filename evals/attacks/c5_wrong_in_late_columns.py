"""C5. Right on every width that is checked, and wrong in the columns beyond.

task: rmsnorm_scale
tier: closed
expect: interpret: wrong-values
why: An epilogue that asks for its column is compared with the reference on a million of them.
"""

from codasmith.primitives import column_index, epilogue, where


@epilogue
def kernel(acc, rstd):
    late = column_index(acc) * 0.001 > 262.144
    return {"y": where(late, 0.5 * acc, acc) * rstd}
