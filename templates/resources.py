"""Resources of our own: values that an epilogue reads besides quack's vectors, tiles and scalars."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32
from quack.epilogue.ops import EpiOp


class _Index(EpiOp):
    """The number of an element's row or column within the whole matrix, as float32: exact below 2^24.

    Takes no argument; an operation is active only where one is given, so callers pass a number that is compiled in.
    """

    fn_port = "value"
    axis: int

    def host_arg_key(self, value):
        return None if value is None else ("const", int(value))

    def host_fake_arg(self, key, fctx):
        return key[1]

    def host_call_arg(self, value, key):
        return None

    def arg_spec_type(self, const=False):
        return cutlass.Constexpr[int]

    def host_arg_form(self, value):
        return "Const"

    def param_fields(self):
        return [(self.name, object, None)]

    def to_params(self, gemm, args):
        return {self.name: getattr(args, self.name)}

    @cute.jit
    def begin(self, gemm, param, smem_tensor, ctx):
        coordinates = ctx.partition_for_epilogue_fn(cute.make_identity_tensor((ctx.tile_M, ctx.tile_N)))
        size = ctx.tile_M if cutlass.const_expr(self.axis == 0) else ctx.tile_N
        return (coordinates, ctx.tile_coord_mnkl[self.axis] * size)

    @cute.jit
    def begin_loop(self, gemm, state, epi_coord):
        here = state[0][None, None, None, epi_coord[0], epi_coord[1]]
        # Each element's distance from the thread's first is known while tracing: one addition an element remains.
        along = cute.make_layout(gemm.cta_tile_shape_mnk[:2], stride=(1, 0) if self.axis == 0 else (0, 1))
        offsets = cute.composition(along, here.layout)
        first = Float32(state[1] + here[0][self.axis])
        out = cute.make_rmem_tensor(here.layout.shape, Float32)
        for i in cutlass.range(cute.size(out), unroll_full=True):
            out[i] = first + Float32(cute.crd2idx(i, offsets))
        return out


class ColumnIndex(_Index):
    """The element's column."""

    axis = 1


class RowIndex(_Index):
    """The element's row."""

    axis = 0
