"""D4. Answers from the operands alone.

task: linear_row_dot
tier: closed
expect: read: no-accumulator
why: An answer that does not use acc is refused.
"""

from codasmith.primitives import epilogue, row_sum


@epilogue
def kernel(acc, y):
    return {"grad_y": y * 2.0, "ydy": row_sum(y, y)}
