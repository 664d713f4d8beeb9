"""Reductions that leave out the lanes of a ragged tile.

Lanes outside M or N see a zero accumulator and zero operands.  quack's sums fold them in, which is right
only where the reduced expression is zero there; these sinks fold the identity instead.  The select per
element was measured by quack's authors at about one per cent of an epilogue-bound kernel.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32
from quack.epilogue.ops import ColVecReduce, RowVecReduce, colvec_reduce_accumulate, rowvec_reduce_accumulate


class _Masked:
    """Folds zero for lanes beyond the edge; for joins whose identity is zero (sum, largest magnitude)."""

    def _mask_oob_active(self):
        return True

    @cute.jit
    def _mask_oob(self, frag, coords, limit, tile_shape_mn):
        axis = self._reduce_dim()
        along = cute.make_layout(tile_shape_mn, stride=(1, 0) if axis == 0 else (0, 1))
        # The offset of each element along the reduced axis is known while tracing; only the edge is not.
        offsets = cute.composition(along, coords.layout)
        edge = limit - coords[0][axis]
        for i in cutlass.range(cute.size(frag), unroll_full=True):
            frag[i] = frag[i] if cute.crd2idx(i, offsets) < edge else Float32(0.0)

    @cute.jit
    def fn_sink_flush(self, gemm, state, frag, scale=None):
        total, coords, limit = state
        self._mask_oob(frag, coords, limit, gemm.cta_tile_shape_mnk[:2])
        if cutlass.const_expr(scale is not None):
            # Both factors: 0 * infinity would be NaN.
            self._mask_oob(scale, coords, limit, gemm.cta_tile_shape_mnk[:2])
        # Not through super(): a traced method is looked up by name and would find itself.
        if cutlass.const_expr(self.dim == 0):
            colvec_reduce_accumulate(gemm, total, frag, rScale=scale, combine=self.combine)
        else:
            rowvec_reduce_accumulate(gemm, total, frag, rScale=scale, combine=self.combine)


class MaskedColVecReduce(_Masked, ColVecReduce):
    """One result a row, columns beyond N left out."""


class MaskedRowVecReduce(_Masked, RowVecReduce):
    """One result a column, rows beyond M left out."""
