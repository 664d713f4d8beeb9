"""Schedules: the tile shapes, cluster shapes and warp arrangements that the template may run.

Every schedule is a different kernel.  Only shapes that compile without spilling for ordinary epilogues
are listed; two-warpgroup tiles such as 192x192 cooperative abort the compiler and are left out.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Schedule(BaseModel):
    """One way to run the GEMM."""

    model_config = ConfigDict(frozen=True)

    tile_m: int
    tile_n: int
    pingpong: bool
    """Two consumer warpgroups take turns on two tiles; otherwise they cooperate on one."""
    cluster_m: int = 2
    cluster_n: int = 1
    swizzle: int = 8
    """Width of the band in which tiles are walked, for L2 reuse."""

    @property
    def name(self) -> str:
        """Such as "128x256-coop-2x1"."""
        kind = "pingpong" if self.pingpong else "coop"
        text = f"{self.tile_m}x{self.tile_n}-{kind}-{self.cluster_m}x{self.cluster_n}"
        return text if self.swizzle == 8 else f"{text}-s{self.swizzle}"

    @property
    def cluster(self) -> int:
        return self.cluster_m * self.cluster_n


SCHEDULES: tuple[Schedule, ...] = (
    Schedule(tile_m=128, tile_n=256, pingpong=False),
    Schedule(tile_m=128, tile_n=192, pingpong=True),
    Schedule(tile_m=256, tile_n=128, pingpong=False),
    Schedule(tile_m=128, tile_n=128, pingpong=True),
    Schedule(tile_m=256, tile_n=192, pingpong=False),
    Schedule(tile_m=128, tile_n=160, pingpong=True),
    Schedule(tile_m=64, tile_n=128, pingpong=True, cluster_m=1),
)
"""From the usual winner to the specialist; the last serves few rows."""

FP8_SCHEDULES: tuple[Schedule, ...] = (
    Schedule(tile_m=128, tile_n=192, pingpong=False),
    Schedule(tile_m=128, tile_n=128, pingpong=False),
    Schedule(tile_m=64, tile_n=192, pingpong=True),
    Schedule(tile_m=192, tile_n=128, pingpong=False, cluster_m=1),
    Schedule(tile_m=128, tile_n=160, pingpong=False),
    Schedule(tile_m=128, tile_n=96, pingpong=True),
    Schedule(tile_m=64, tile_n=128, pingpong=True, cluster_m=1),
)
"""For 8-bit operands.  A tensor core adds their products with some 14 bits only, so its sums are added to float32
registers after every 128 terms: a second accumulator, which the tiles above spill (512 bytes a thread and more) and
these do not."""


def schedules_for(storage: str) -> tuple[Schedule, ...]:
    """The schedules that suit a storage dtype."""
    return FP8_SCHEDULES if storage == "fp8" else SCHEDULES


def by_name(name: str) -> Schedule:
    """The schedule with that name. Raises KeyError with the known names."""
    every = tuple(dict.fromkeys((*SCHEDULES, *FP8_SCHEDULES)))
    for schedule in every:
        if schedule.name == name:
            return schedule
    raise KeyError(f"no schedule is called {name!r}; known are {', '.join(s.name for s in every)}")
