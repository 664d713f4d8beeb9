"""How many stages of shared memory a kernel's pipelines get: its operands', its stores' and its loaded tiles'.

quack serves the epilogue first, with two stages of stores and four of tiles, and the operands get what is left.  That
is mostly enough of 16-bit operands.  A tensor core multiplies 8-bit ones twice as fast, and waits for memory unless as
many bytes of them are on their way: the epilogue gives up stages where that makes room for another one of operands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

Stages = tuple[int, int, int]
"""Of operands, of stores, of loaded tiles."""

FEW = 3
"""Fewer stages of 16-bit operands than this leave the tensor cores waiting: half the speed was measured with two."""
FEW_BYTES = 160 << 10
"""Fewer bytes of 8-bit operands than this, on their way, leave them waiting: another stage saved 17 % of the time where
120 KiB were, 9 % where 128, 5 % where 144, and none where 160 (medians on H200s, beside schedules that kept theirs; the
replaced verdicts in benchmarks/results had the stage less)."""
ROW_BYTES = 128
"""Of an operand's row in a stage."""
GIVEN_UP = {16: ((2, 0),), 8: ((3, 0), (2, 0), (4, 1), (3, 1), (2, 1))}
"""By the operands' bits: stages of tiles to begin with, and how many of stores fewer; the best liked first."""


def few(stages: int, tile_m: int, tile_n: int, bits: int) -> bool:
    """Whether so many stages of a tile's operands, of so many bits, leave the tensor cores waiting for memory."""
    return stages * (tile_m + tile_n) * ROW_BYTES < FEW_BYTES if bits == 8 else stages < FEW


def shared_out(compute: Callable[..., Stages], cls: type, *args: Any, **kwargs: Any) -> Stages:
    """The stages for a kernel of quack's class `cls`, whose own `_compute_stages` is `compute`; the rest is its."""
    given = inspect.signature(compute).bind(cls, *args, **kwargs).arguments
    usual, bits, (m, n, _) = compute(**given), given["a_dtype"].width, given["cta_tile_shape_mnk"]
    if not few(usual[0], m, n, bits):
        return usual
    tried = [_fewer(compute, given, *fewer) for fewer in GIVEN_UP[bits]]
    return max([usual, *(t for t in tried if t[1] > 0)], key=lambda stages: stages[0])


def _fewer(compute: Callable[..., Stages], given: dict[str, Any], tiles: int, stores: int) -> Stages:
    """The same, beginning with so many stages of tiles, and with so many stages of stores fewer."""
    cls = given["cls"]
    usual, cls.epi_c_stage_base = cls.epi_c_stage_base, tiles
    try:
        room = given["smem_capacity"] + stores * _stored(given)
        found = compute(**{**given, "smem_capacity": room})
    finally:
        cls.epi_c_stage_base = usual
    return found[0], found[1] - stores, found[2]


def _stored(given: dict[str, Any]) -> int:
    """Bytes of a stage of stores."""
    rows, columns = given["epi_tile"]
    d, shape = given["d_dtype"], given.get("warp_shape_mnk")
    smem = given["cls"].epi_smem_bytes(given["epilogue_args"], given["cta_tile_shape_mnk"], given["epi_tile"], shape)
    return smem.d_stage + (rows * columns * d.width // 8 if d is not None else 0)
