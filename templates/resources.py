"""Resources of our own: values that an epilogue reads besides quack's vectors, tiles and scalars."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32
from quack.epilogue.ops import EpiOp, GroupedColStatsBase, RowVecLoad, assume_stride_divisibility, make_fake_tensor


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


class HalvesRowVecLoad(RowVecLoad):
    """A row vector stored as halves, [even columns, odd columns], read so that the two alternate.

    The two lanes of a pair lie N/2 elements apart, too far for one asynchronous copy of 4 bytes, so elements are
    loaded one by one.
    """

    @cute.jit
    def begin(self, gemm, param, smem_tensor, ctx):
        columns = cute.size(param, mode=[1])
        half = columns // 2
        for start in cutlass.range(0, ctx.tile_N, ctx.num_epi_threads, unroll_full=True):
            i = start + ctx.tidx
            if i < ctx.tile_N:
                column = ctx.tile_coord_mnkl[1] * ctx.tile_N + i
                inside = min(column, columns - 1)
                value = param[ctx.batch_idx, (inside % 2) * half + inside // 2]
                smem_tensor[i] = cutlass.select_(column < columns, value, param.element_type(0.0))
        spread = cute.make_layout((ctx.tile_M, ctx.tile_N), stride=self._broadcast_stride())
        shared = ctx.partition_for_epilogue_fn(cute.make_tensor(smem_tensor.iterator, spread))
        first = cute.group_modes(shared, 3, cute.rank(shared))[None, None, None, 0]
        return [shared, cute.make_rmem_tensor(first.layout, gemm.acc_dtype)]


class HeadSum(GroupedColStatsBase):
    """Per row and head, the sum of what the function before the stores returns; its argument is the head's width."""

    def stat_value(self, total, group_cols):
        return total


class WideStore(EpiOp):
    """A further output as wide as the accumulator where columns are used in pairs; quack stores half-width ones there.

    Each thread writes its pairs of adjacent columns from registers, without shared memory.  N is even.
    """

    fn_port = "sink"

    def host_fake_arg(self, key, fctx):
        dtype, _ = key
        return make_fake_tensor(dtype, (fctx.m, fctx.n), leading_dim=1, divisibility=128 // dtype.width)

    def param_fields(self):
        return [(self.name, object, None)]

    def to_params(self, gemm, args):
        return {self.name: assume_stride_divisibility(getattr(args, self.name))}

    @cute.jit
    def begin(self, gemm, param, smem_tensor, ctx):
        shape = (ctx.tile_M, ctx.tile_N)
        place = (ctx.tile_coord_mnkl[0], ctx.tile_coord_mnkl[1])
        target = ctx.partition_for_epilogue_fn(cute.local_tile(param, shape, place))
        coordinates = ctx.partition_for_epilogue_fn(cute.make_identity_tensor(shape))
        rows = cute.size(param, mode=[0]) - place[0] * ctx.tile_M
        columns = cute.size(param, mode=[1]) - place[1] * ctx.tile_N
        return (target, coordinates, rows, columns)

    def begin_loop(self, gemm, state, epi_coord):
        here = (None, None, None, epi_coord[0], epi_coord[1])
        return (state[0][here], state[1][here], state[2], state[3])

    @cute.jit
    def fn_sink_flush(self, gemm, state, frag):
        target, coordinates, rows, columns = state
        pair = cute.make_layout(2)
        targets, places = cute.flat_divide(target, pair), cute.flat_divide(coordinates, pair)
        targets = cute.group_modes(targets, 1, cute.rank(targets))
        places = cute.group_modes(places, 1, cute.rank(places))
        for j in cutlass.range(cute.size(targets, mode=[1]), unroll_full=True):
            here = places[0, j]
            if here[0] < rows and here[1] < columns:
                two = cute.make_rmem_tensor(2, target.element_type)
                two[0] = frag[2 * j].to(target.element_type)
                two[1] = frag[2 * j + 1].to(target.element_type)
                cute.autovec_copy(two, targets[None, j])
