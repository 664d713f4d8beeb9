"""Residual stream with the statistics of a LayerNorm."""

from codasmith.primitives import epilogue, row_sum


@epilogue
def residual_layernorm_stats(acc, residual):
    h = acc + residual
    return {"h": h, "sums": row_sum(h), "sumsq": row_sum(h, h)}
