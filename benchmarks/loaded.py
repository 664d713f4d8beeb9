"""A loaded operator against torch.compile and eager, by Triton's do_bench: `python benchmarks/loaded.py`.

Independent of the gate's own clock: the table that a user would make for himself.  Prints JSON lines with
milliseconds (median, L2 cleared between calls), error against float64 over the unfused path's own, and the
host time of a warm call.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from codasmith.gate.machine import environment
from codasmith.tasks import Task, TaskError, Workload, draw, legal, load_task, oracle, unfused
from codasmith.tasks.quantise import FP8, as_unfused
from codasmith.verified_kernels import load
from triton.testing import do_bench


def host_microseconds(call, calls: int = 2000) -> float:
    """Host time of a call while the GPU is far behind: nothing waits."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(5):
        torch.cuda._sleep(400_000_000)
        started = time.perf_counter()
        for _ in range(calls // 10):
            call()
        best = min(best, (time.perf_counter() - started) / (calls // 10))
        torch.cuda.synchronize()
    return 1e6 * best


def sizes_of(task: Task, pairs: list[str], otherwise: dict[str, int]) -> dict[str, int]:
    """From such as M=4096. Raises SystemExit for what does not size the task."""
    try:
        sizes = {name: int(size) for name, size in (pair.split("=") for pair in pairs)} or otherwise
    except ValueError:
        raise SystemExit(f"{' '.join(pairs)} are no sizes; write them as M=4096 N=4096 K=4096") from None
    try:
        if why := legal(task, sizes, task.usual_storage):
            raise SystemExit(f"{task.name} cannot have these sizes: {why}")
    except TaskError as error:
        raise SystemExit(f"{task.name} cannot have these sizes: {error}") from None
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="?", default="rmsnorm_swiglu")
    parser.add_argument(
        "sizes", nargs="*", help="such as M=8192; by default those of its timed shape with the most work"
    )
    parser.add_argument("--small", nargs="*", default=[], help="sizes for the host's time; by default some 256 a side")
    options = parser.parse_args()
    try:
        task = load_task(options.task)
    except TaskError as error:
        raise SystemExit(str(error)) from None
    most = max((w.sizes for w in task.workloads(task.usual_storage)), key=task.flops)
    large, little = sizes_of(task, options.sizes, most), sizes_of(task, options.small, task.default_sizes(256))
    if not torch.cuda.is_available():
        raise SystemExit("the times of a loaded kernel take a Hopper GPU, and there is none here")
    op, preferring = load(options.task, strict=True), load(options.task)
    print(json.dumps(environment()))
    inputs = draw(op.task, Workload(sizes=large, storage=task.usual_storage), "cuda")
    reference, given = as_unfused(op.task.reference, inputs)
    compiled, ours = (torch.compile(function, dynamic=False) for function in (reference, lambda **i: preferring(**i)))
    contestants = {
        "operator": lambda: op(**inputs),
        "operator under torch.compile": lambda: ours(**inputs),
        "torch.compile": lambda: compiled(**given),
        "eager": lambda: reference(**given),
    }
    with torch.no_grad():
        times = {name: do_bench(call, warmup=100, rep=400, return_mode="median") for name, call in contestants.items()}
        answer = op(**inputs)
        truth, plain = oracle(op.task, inputs), unfused(op.task, inputs)
    answers = dict(zip(op.task.outputs, answer if isinstance(answer, tuple) else (answer,), strict=True))
    errors = {
        name: {
            "over_unfused_max": (
                (value.double() - truth[name]).abs().max() / (plain[name].double() - truth[name]).abs().max()
            ).item(),
            "relative_rms": ((value.double() - truth[name]).norm() / truth[name].norm()).item(),
        }
        for name, value in answers.items()
    }
    small = draw(op.task, Workload(sizes=little, storage=task.usual_storage), "cuda")
    with torch.no_grad():
        host = {"operator without grad": host_microseconds(lambda: op(**small))}
    wanting = {
        k: v.requires_grad_() if isinstance(v, torch.Tensor) and v.is_floating_point() and v.dtype != FP8 else v
        for k, v in small.items()
    }
    host["operator with grad"] = host_microseconds(lambda: op(**wanting))
    row = {
        "task": options.task,
        "sizes": large,
        "explained": preferring.explain(**inputs),
        "milliseconds": times,
        "errors": errors,
        "host_microseconds": host,
    }
    row["over_compile"] = times["torch.compile"] / times["operator"]
    print(json.dumps(row))


if __name__ == "__main__":
    main()
