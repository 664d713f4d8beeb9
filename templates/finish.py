"""The finishing kernels: join the partials of a reduction's tiles into one vector.

One thread an element.  Partials are small (4 bytes a row and tile) and lie in L2 when this runs; the order
of joining is fixed, so results do not change from run to run.
"""

from __future__ import annotations

import math

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr

THREADS = 128


class Join:
    """partials -> out, along the tiles.

    direction "row": partials [M, tiles], out [M].  "col": partials [tiles, N], out [N], where element j is
    taken from partial column offset + stride * j and written to out_offset + out_stride * j.
    """

    def __init__(
        self, direction: str, join: str, stride: int = 1, offset: int = 0, out_stride: int = 1, out_offset: int = 0
    ):
        self.direction, self.join = direction, join
        self.stride, self.offset = stride, offset
        self.out_stride, self.out_offset = out_stride, out_offset

    @cute.jit
    def __call__(self, partials: cute.Tensor, out: cute.Tensor, stream):
        elements = cute.size(out) // self.out_stride
        self.kernel(partials, out, elements).launch(
            grid=[cute.ceil_div(elements, THREADS), 1, 1], block=[THREADS, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, partials: cute.Tensor, out: cute.Tensor, elements: Int32):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        j = block * THREADS + thread
        if j < elements:
            tiles = partials.shape[1] if const_expr(self.direction == "row") else partials.shape[0]  # type: ignore[index]
            best = Float32(-math.inf)
            total = Float32(0.0)
            if const_expr(self.join == "max" or self.join == "lse"):
                for t in cutlass.range(tiles, unroll=8):
                    best = cute.arch.fmax(best, self.at(partials, j, t), nan=True)
            if const_expr(self.join == "absmax"):
                for t in cutlass.range(tiles, unroll=8):
                    total = cute.arch.fmax(total, self.at(partials, j, t), nan=True)
            if const_expr(self.join == "sum"):
                for t in cutlass.range(tiles, unroll=8):
                    total = total + self.at(partials, j, t)
            result = total
            if const_expr(self.join == "max"):
                result = best
            if const_expr(self.join == "lse"):
                # All partials -inf: subtract 0 instead, so that the result is -inf and not NaN.
                shift = Float32(cutlass.select_(best == Float32(-math.inf), Float32(0.0), best))
                for t in cutlass.range(tiles, unroll=8):
                    total = total + cute.math.exp(self.at(partials, j, t) - shift, fastmath=True)  # type: ignore[attr-defined]
                result = shift + cute.math.log(total, fastmath=True)  # type: ignore[attr-defined]
            out[self.out_offset + self.out_stride * j] = result

    def at(self, partials, j, t):
        if const_expr(self.direction == "row"):
            return partials[j, t]
        return partials[t, self.offset + self.stride * j]


def compile_join(join: Join):
    """Compile a join for float32 contiguous tensors of any size, callable through tvm_ffi."""
    rows, cols, length = cute.sym_int(), cute.sym_int(), cute.sym_int()
    partials = cute.runtime.make_fake_compact_tensor(Float32, (rows, cols), stride_order=(1, 0), assumed_align=4)
    out = cute.runtime.make_fake_compact_tensor(Float32, (length,), stride_order=(0,), assumed_align=4)
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(join, partials, out, stream, options="--enable-tvm-ffi")
