"""Library functions that do a task's whole job, timed beside the admitted kernel: `python benchmarks/libraries.py`.

Each is a function of the task's inputs, for as many tiles as the library lets one choose; the fastest tile counts.
What a library returns is held against the gate's numerics rule first, so that nothing is compared with a wrong
answer.  Kernel, library and cuBLAS take turns within each round, as in the gate.  A library that is not installed, or
that fails, is recorded as such, and costs the others nothing.

Here are quack's own functions, and cuBLASLt's epilogues where torch reaches them.  Liger's layers join no epilogue to
a product, except for its cross-entropy, which waits for the host and so fits into no CUDA graph: `train.py` has it
inside a model.  `coda-kernels` is on no package index.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from codasmith.gate import baselines, stopwatch
from codasmith.gate.tolerance import judge
from codasmith.tasks import Task, Workload, draw, interleave, load_task, oracle, unfused
from codasmith.tasks.quantise import FP8

sys.path.insert(0, str(Path(__file__).parent))
from out_file import out_file

Inputs = dict[str, Any]
Function = Callable[[Inputs, Any], dict[str, torch.Tensor]]
TILES = ((128, 192, True), (128, 128, True), (128, 256, False), (256, 128, False))
"""Rows, columns and whether two groups of warps take turns: those that quack's own tuner most often ends with."""
TURN_MS, ROUNDS, SETS = 3.0, 11, 6


def quack(name: str, *outputs: str, x: str = "x", w: Callable[[Inputs], torch.Tensor] | None = None, **fixed: Any):
    """A function of quack's gemm_interface. outputs: the task's names for what it returns, "" for what it has not.

    w: the second operand as [K, N]; x @ w.T by default. fixed: further arguments; a function is given the inputs.
    """

    def call(i: Inputs, config: Any) -> dict[str, torch.Tensor]:
        from quack import gemm_interface

        more = {k: v(i) if callable(v) else v for k, v in fixed.items()}
        more |= {"config": config} if config is not None else {"tuned": False}
        found = getattr(gemm_interface, name)(i[x], w(i) if w else i["w"].T, **more)
        found = found if isinstance(found, tuple) else (found,)
        return {k: v for k, v in zip(outputs, found, strict=False) if k}

    call.library = f"quack.gemm_interface.{name}"  # type: ignore[attr-defined]
    call.tiles = name not in ("gemm_add",)  # type: ignore[attr-defined]
    return call


def cublaslt(name: str, function: Callable[[Inputs], torch.Tensor]) -> Function:
    """A product with an epilogue of cuBLASLt's, by its name in torch."""

    def call(i: Inputs, config: Any) -> dict[str, torch.Tensor]:
        return {"y": function(i)}

    call.library, call.tiles = f"torch.{name} (cuBLASLt)", False  # type: ignore[attr-defined]
    return call


def take(name: str) -> Callable[[Inputs], Any]:
    return lambda i: i[name]


def pairs(i: Inputs) -> torch.Tensor:
    """Gate and up of a weight laid out as halves in turn, as a library wants them; made before the clock runs."""
    if "w in pairs" not in i:
        i["w in pairs"] = interleave(i["w"], 0).contiguous()
    return i["w in pairs"].T


def untransposed(i: Inputs) -> torch.Tensor:
    return i["w"]


def act(activation: str | None, **more: Any) -> Function:
    return quack("gemm_act", "", "y", activation=activation, store_preact=False, **more)


def gated(activation: str, *outputs: str, store: bool = False, **more: Any) -> Function:
    return quack("gemm_act", *outputs, activation=activation, store_preact=store, **more)


FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "linear_bias": (
        cublaslt("addmm", lambda i: torch.addmm(i["bias"], i["x"], i["w"].T)),
        act(None, bias=take("bias")),
    ),
    "linear_bias_gelu_tanh": (
        cublaslt("_addmm_activation", lambda i: torch._addmm_activation(i["bias"], i["x"], i["w"].T, use_gelu=True)),
        act("gelu_tanh_approx", bias=take("bias")),
    ),
    "linear_bias_gelu": (act("gelu_erf", bias=take("bias")),),
    "linear_bias_relu_sq": (act("relu_sq", bias=take("bias")),),
    "linear_bias_silu": (act("silu", bias=take("bias")),),
    "linear_silu": (act("silu"),),
    "linear_bias_residual": (quack("gemm_add", "y", C=take("residual"), bias=take("bias")),),
    "linear_alpha_beta_residual": (
        quack("gemm_add", "y", C=take("residual"), alpha=take("alpha"), beta=take("beta")),
        cublaslt("addmm", lambda i: torch.addmm(i["residual"], i["x"], i["w"].T, beta=i["beta"], alpha=i["alpha"])),
    ),
    "linear_swiglu": (gated("swiglu", "z", "o", store=True, concat_layout=("B",)),),
    "linear_swiglu_o": (gated("swiglu", "", "o", concat_layout=("B",)),),
    "linear_reglu": (gated("reglu", "", "o", concat_layout=("B",)),),
    "rmsnorm_scale": (quack("gemm_norm_act", "", "y", x="h", rstd=take("rstd"), activation=None),),
    "rmsnorm_relu_sq": (quack("gemm_norm_act", "", "y", rstd=take("rstd"), activation="relu_sq"),),
    "rmsnorm_swiglu": (quack("gemm_norm_act", "", "o", w=pairs, rstd=take("rstd"), activation="swiglu"),),
    "rmsnorm_geglu": (quack("gemm_norm_act", "", "o", w=pairs, rstd=take("rstd"), activation="geglu"),),
    "gelu_bwd": (quack("gemm_dact", "dx", "", x="dy", w=untransposed, PreAct=take("pre"), activation="gelu_erf"),),
    "relu_sq_bwd": (quack("gemm_dact", "dx", "a", x="dy", w=untransposed, PreAct=take("pre"), activation="relu_sq"),),
    "swiglu_bwd_pointwise": (
        quack("gemm_dact", "dz", "", x="dy", w=untransposed, PreAct=take("z"), activation="swiglu"),
    ),
    "geglu_bwd": (quack("gemm_dact", "dz", "o", x="dy", w=untransposed, PreAct=take("z"), activation="geglu"),),
}
"""By task. A function that returns fewer outputs than the task, or others beside them, is not among these."""


def scaled(i: Inputs, x: str, rows: str, columns: str | None = None, bias: str | None = None) -> torch.Tensor:
    """torch._scaled_mm with a scale a row and a scale a column (ones where there are none), made before the clock."""
    if "columns" not in i:
        i["columns"] = i[columns][None] if columns else torch.ones(1, len(i["w"]), device=i["w"].device)
    return torch._scaled_mm(
        i[x], i["w"].T, i[rows][:, None], i["columns"], bias=i[bias] if bias else None, out_dtype=torch.bfloat16
    )


IN_FP8: dict[str, tuple[Function, ...]] = {
    "linear_scale_bias": (cublaslt("_scaled_mm", lambda i: scaled(i, "x", "row_scale", "col_scale", "bias")),),
    "rmsnorm_scale": (cublaslt("_scaled_mm", lambda i: scaled(i, "h", "rstd")),),
}
"""The same for operands in fp8."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", help="all that have a library function by default")
    parser.add_argument("--out", type=out_file, help="JSON lines, one a task, shape and library")
    parser.add_argument("--storage", default="bf16", choices=["bf16", "fp8"])
    parser.add_argument("--shapes", type=int, default=2, help="of each task, from the first on")
    parser.add_argument("--limit-s", type=float, default=240, help="start nothing further after so many seconds")
    options = parser.parse_args()
    from codasmith.gate.machine import environment

    started = time.monotonic()
    functions = IN_FP8 if options.storage == "fp8" else FUNCTIONS
    if unknown := next((name for name in options.tasks if name not in functions), None):
        raise SystemExit(f"no library function does {unknown!r} in {options.storage}; there are {', '.join(functions)}")
    if not torch.cuda.is_available():
        raise SystemExit("timing a library's function takes a Hopper GPU, and there is none here")
    for name in options.tasks or functions:
        task = load_task(name)
        for workload in task.workloads(options.storage)[: options.shapes]:
            for function in functions[name]:
                if time.monotonic() - started > options.limit_s:
                    print(f"{name} {workload.label}: not started, the time is up", flush=True)
                    continue
                row = {"task": name, "workload": workload.model_dump(mode="json"), "library": function.library}
                row |= _measure(task, workload, function)
                row["environment"] = environment()
                print(f"{name} {workload.label}: {_words(row)}", flush=True)
                if options.out:
                    with options.out.open("a") as stream:
                        stream.write(json.dumps(row) + "\n")
                torch.cuda.empty_cache()


def _measure(task: Task, workload: Workload, function: Function) -> dict[str, Any]:
    """Milliseconds and ratios with intervals; or why there are none."""
    from codasmith.verified_kernels import load

    sets = [draw(task, workload.model_copy(update={"seed": seed}), "cuda") for seed in range(SETS)]
    try:
        configs = _configs() if function.tiles else [None]  # type: ignore[attr-defined]
        right = [c for c in configs if _is_right(task, sets[0], function, c)]
        if not right:
            return {"failed": "its answer is outside the gate's numerics bound"}
        recorded = {c: baselines.recorded([partial(function, s, c) for s in sets]) for c in right}
        raced = stopwatch.rounds({str(c): (r, SETS) for c, r in recorded.items()}, 5, TURN_MS)
        best = min(right, key=lambda c: sorted(raced[str(c)])[2])
        contestants = {"library": (recorded[best], SETS)}
        operator = load(task)
        if operator.entry is not None and operator.why_not(**_own(task, sets[0])) is None:
            contestants["kernel"] = (baselines.recorded([partial(operator, **_own(task, s)) for s in sets]), SETS)
        contestants["cublas"] = (baselines.recorded([partial(_product, task, s) for s in sets]), SETS)
        times = stopwatch.rounds(contestants, ROUNDS, TURN_MS, warm_s=0.3, budget_s=2.0)
    except Exception as error:  # whatever a library raises; it is then no baseline here
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]}
    row: dict[str, Any] = {"milliseconds": {k: sorted(v)[len(v) // 2] for k, v in times.items()}, "tile": str(best)}
    row["library_over_cublas"] = stopwatch.ratio(times["library"], times["cublas"]).data()
    if "kernel" in times:
        row["over_library"] = stopwatch.ratio(times["library"], times["kernel"]).data()
    return row


def _own(task: Task, inputs: Inputs) -> Inputs:
    return {name: inputs[name] for name in task.tensors}


def _product(task: Task, i: Inputs) -> torch.Tensor:
    a, b = i[task.gemm.a], i[task.gemm.b]
    if a.dtype == FP8:
        if "one" not in i:
            i["one"] = torch.ones((), device=a.device)
        return torch._scaled_mm(a, b.T, i["one"], i["one"], out_dtype=torch.bfloat16)
    return (a.T if task.gemm.a_transposed else a) @ (b.T if task.gemm.b_transposed else b)


def _is_right(task: Task, inputs: Inputs, function: Function, config: Any) -> bool:
    own = _own(task, inputs)
    with torch.no_grad():
        found, exact, plain = function(inputs, config), oracle(task, own), unfused(task, own)
    return all(judge(found[k], exact[k], plain[k], plain[k].dtype).ok for k in exact)


def _configs() -> list[Any]:
    from quack.gemm_config import GemmConfig

    return [
        GemmConfig(tile_m=m, tile_n=n, pingpong=p, cluster_m=2, cluster_n=1, is_dynamic_persistent=False)
        for m, n, p in TILES
    ]


def _words(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['library']}: {row['failed']}"
    text = f"{row['library']} {row['milliseconds']['library']:.3f} ms"
    if "over_library" in row:
        found = row["over_library"]
        text += f", kernel {found['value']:.2f}x as fast [{found['low']:.2f}, {found['high']:.2f}]"
    return text


if __name__ == "__main__":
    main()
