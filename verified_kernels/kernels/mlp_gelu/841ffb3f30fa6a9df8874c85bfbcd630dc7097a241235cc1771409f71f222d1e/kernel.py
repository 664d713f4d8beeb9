"""GELU with bias, what it was applied to kept; then a product with bias."""

from codasmith.primitives import epilogue, gelu


@epilogue
def up(acc, b_up):
    pre = acc + b_up
    return {"pre": pre, "o": gelu(pre)}


@epilogue
def down(acc, b_down):
    return {"y": acc + b_down}
