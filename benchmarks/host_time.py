"""Host time of a warm operator call, by part: `python benchmarks/host_time.py [TASK]`.

On a Hopper GPU it times the real kernel; elsewhere a recorder stands in for the compiled object and for the
GPU, so that everything but the launch itself runs as it would.  Prints one JSON line of microseconds, each the
best of many short windows: other processes disturb some of them and never make one shorter.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import torch
from codasmith.gate.machine import environment
from codasmith.tasks import ProgramTask, TaskError, Workload, draw
from codasmith.templates import bound, launch
from codasmith.verified_kernels import Operator, RegistryError, load, recheck, runner
from codasmith.verified_kernels.watched import by_mode

SIDE = 256


class Recorder(dict):
    """Stands in for a loaded object: any function by name, which does nothing."""

    def __missing__(self, name: str) -> Callable:
        return lambda *arguments: None


def without_gpu() -> None:
    """Let the whole path run on CPU tensors, up to the call into the compiled object."""
    import tvm_ffi

    tvm_ffi.load_module = lambda path: Recorder()
    launch._runtime = lambda: None
    launch.processors = lambda device: 132
    launch.refuse = lambda signature, inputs: None
    bound._current_device = torch.cuda.current_device = lambda: None
    runner._no_hopper = lambda device: None
    recheck.quarantined = lambda *known, **how: ""


def microseconds(calls: dict[str, Callable], window: int = 200) -> dict[str, float]:
    """The best mean of each over a window. They take turns: what is timed first would find the machine asleep.

    On a GPU the windows start far ahead of it, so that nothing waits.
    """
    on_gpu = torch.cuda.is_available()
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(10 if on_gpu else 200):
        for name, call in calls.items():
            if on_gpu:
                torch.cuda.synchronize()
                torch.cuda._sleep(400_000_000)
            for _ in range(20):
                call()
            started = time.perf_counter()
            for _ in range(window):
                call()
            best[name] = min(best[name], (time.perf_counter() - started) / window)
    return {name: round(1e6 * seconds, 2) for name, seconds in best.items()}


def bare(op: Operator, inputs: dict) -> Callable:
    """The linked object's own call, its arguments made beforehand: what no operator can go below."""
    kernel = next(k for k in op._runner._kernels.values() if not isinstance(k, str))
    outputs, workspace = kernel.outputs_like(inputs), kernel.workspace(inputs)
    made: list[tuple] = []
    with patch.object(kernel, "gemm", lambda *arguments: made.append(arguments)):
        kernel(inputs, outputs, workspace)
    return partial(kernel.gemm, *made[0])


def quack_product(x: torch.Tensor, w: torch.Tensor) -> Callable:
    """quack's own call of a plain product of the same operands, its choice of a schedule out of the way."""
    from quack.gemm_interface import gemm

    return partial(gemm, x, w.t(), tuned=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="?", default="rmsnorm_swiglu")
    parser.add_argument("--quack", action="store_true", help="also quack's own call of a product; imports quack")
    options = parser.parse_args()
    try:
        op = load(options.task, strict=True)
    except (RegistryError, TaskError) as error:
        raise SystemExit(str(error)) from None
    if isinstance(op.task, ProgramTask):
        raise SystemExit(f"{op.task.name} is a program, and the parts are those of one kernel's call; name such a task")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        without_gpu()
    sizes = {s: SIDE for s in op.task.symbols}
    inputs = draw(op.task, Workload(sizes=sizes, storage=op.task.usual_storage), device)
    values, run = tuple(inputs.values()), op._runner
    with torch.no_grad():
        op(*values), op(*values)  # decides, and remembers
        plan = run.plan(values)
        calls = {
            "call": lambda: op(*values),
            "call by keyword": lambda: op(**inputs),
            "through the dispatcher": lambda: op.overload(*values),
            "modes": by_mode,
            "guard": lambda: plan.guard(*values),
            "key": lambda: run._key(values),
            "plan": lambda: run.remembered(values),
            "bare linked call": bare(op, inputs),
            "allocate and launch": lambda: plan.launch(values),
        }
        if options.quack:
            calls["quack's own product"] = quack_product(inputs[op.task.gemm.a], inputs[op.task.gemm.b])
        parts = microseconds(calls)
    wanting = [v.requires_grad_() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in values]
    if not op.task.accumulates:
        parts |= microseconds({"call with gradient": lambda: op(*wanting)})
    found = environment() or {"gpu": "none: a recorder stands in for the kernel", "torch": torch.__version__}
    row = {"task": options.task, "kernel": op.explain(*values), "microseconds": parts, "environment": found}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
