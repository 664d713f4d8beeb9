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
from codasmith.tasks import Workload, draw, oracle, unfused
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="?", default="rmsnorm_swiglu")
    parser.add_argument("sizes", nargs="*", default=["M=8192", "F=14336", "K=4096"])
    parser.add_argument("--small", nargs="*", default=["M=256", "F=256", "K=256"], help="sizes for the host's time")
    options = parser.parse_args()
    op, preferring = load(options.task, strict=True), load(options.task)
    print(json.dumps(environment()))

    def sized(pairs: list[str]) -> dict:
        return draw(op.task, Workload(sizes={k: int(v) for k, v in (p.split("=") for p in pairs)}), "cuda")

    inputs = sized(options.sizes)
    reference = op.task.reference
    compiled, ours = (torch.compile(function, dynamic=False) for function in (reference, lambda **i: preferring(**i)))
    contestants = {
        "operator": lambda: op(**inputs),
        "operator under torch.compile": lambda: ours(**inputs),
        "torch.compile": lambda: compiled(**inputs),
        "eager": lambda: reference(**inputs),
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
    small = sized(options.small)
    with torch.no_grad():
        host = {"operator without grad": host_microseconds(lambda: op(**small))}
    wanting = {
        k: v.requires_grad_() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in small.items()
    }
    host["operator with grad"] = host_microseconds(lambda: op(**wanting))
    row = {
        "task": options.task,
        "sizes": options.sizes,
        "explained": preferring.explain(**inputs),
        "milliseconds": times,
        "errors": errors,
        "host_microseconds": host,
    }
    row["over_compile"] = times["torch.compile"] / times["operator"]
    print(json.dumps(row))


if __name__ == "__main__":
    main()
