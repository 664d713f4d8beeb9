"""D3. A solution that ships with this project, pasted.

task: rmsnorm_swiglu
tier: closed
expect: checked
why: Not refused: the read stage records that it is the same expression.
"""

from codasmith.primitives import epilogue, silu, unpack


@epilogue
def mine(acc, rstd):
    a, b = unpack(acc * rstd)
    return {"o": silu(a) * b}
