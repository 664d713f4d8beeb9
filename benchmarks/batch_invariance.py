"""What batch invariance costs: `python benchmarks/batch_invariance.py [TASK ...]`.

One schedule for all shapes, so that a row's bits do not depend on the number of rows, against the schedule that won on
the nearest shape.  Triton's do_bench (L2 cleared, median), the two in turn; one JSON line a task and number of rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import partial

import torch
from codasmith.gate.machine import environment
from codasmith.tasks import Task, TaskError, Workload, draw, legal, load_task
from codasmith.verified_kernels import load

TASKS = ("rmsnorm_swiglu", "residual_partial_rmsnorm", "linear_rope", "linear_bias_gelu")
ROWS = (1, 16, 64, 256, 1024, 4096, 16384)


def sizes_of(task: Task, rows: int, width: int) -> dict[str, int]:
    return {s: rows if s == task.m.symbol else width for s in task.symbols}


def known(name: str, rows: list[int], width: int) -> Task:
    """The task, which takes these sizes. Raises SystemExit, in one sentence, for any other."""
    try:
        task = load_task(name)
    except TaskError as error:
        raise SystemExit(str(error)) from None
    for count in rows:
        if why := legal(task, sizes_of(task, count, width), task.usual_storage):
            raise SystemExit(f"{task.name} cannot have {count} rows at --width {width}: {why}")
    return task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--width", type=int, default=4096, help="every other dimension")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--limit-s", type=float, default=1e9, help="begin no further measurement after so many seconds")
    options = parser.parse_args()
    tasks = [known(name, options.rows, options.width) for name in options.tasks]
    if not torch.cuda.is_available():
        parser.error("there is no GPU")
    from triton.testing import do_bench

    started, ratios = time.monotonic(), []
    print(json.dumps(environment()), flush=True)
    for task in tasks:
        name, free, pinned = task.name, load(task, strict=True), load(task, batch_invariant=True)
        for rows in options.rows:
            if time.monotonic() - started > options.limit_s:
                print(f"{name} M={rows}: not started, the time is up", flush=True)
                continue
            sizes = sizes_of(task, rows, options.width)
            inputs = draw(free.task, Workload(sizes=sizes, storage=task.usual_storage), "cuda")
            found: dict[str, list[float]] = {"free": [], "pinned": []}
            with torch.no_grad():
                for _ in range(options.turns):
                    for which, op in (("free", free), ("pinned", pinned)):
                        call = partial(op, **inputs)
                        found[which].append(do_bench(call, warmup=20, rep=60, return_mode="median"))
            milliseconds = {which: statistics.median(times) for which, times in found.items()}
            ratios.append(milliseconds["pinned"] / milliseconds["free"])
            row = {"task": name, "sizes": sizes, "milliseconds": milliseconds, "cost": round(ratios[-1], 3)}
            row["kernels"] = {"free": free.explain(**inputs), "pinned": pinned.explain(**inputs)}
            print(json.dumps(row), flush=True)
    if ratios:
        print(
            json.dumps({"geometric mean of cost": round(statistics.geometric_mean(ratios), 4), "shapes": len(ratios)})
        )


if __name__ == "__main__":
    main()
