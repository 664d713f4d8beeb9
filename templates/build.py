"""Compile one kernel for sm_90a without a GPU, in the sandbox, and link it into a loadable object.

A job is a JSON file; so is the report.  It runs in a process of its own, and nothing that goes wrong here (the
compiler aborting the process included) reaches the one that asked.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.util
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from . import sandbox
from .link import link

ENVIRONMENT = {
    "QUACK_ARCH": "90",
    "CUTE_DSL_ARCH": "sm_90a",
    "QUACK_CACHE_ENABLED": "0",
    "CUDA_VISIBLE_DEVICES": "",
    "CUTE_DSL_COMPILER_OPT": "remarks{ptx}",
}
"""What must stand in the environment before this module's process starts Python."""

SIDE = {"m": 512, "n": 1024, "k": 512}
"""Any legal size: the compiled kernel serves all."""


def contained(job: dict[str, Any]) -> None:
    """Build one job in the sandbox: a child compiles and may start nothing; what it leaves is linked here."""
    scratch = Path(job["folder"])
    sandbox.enter(scratch, job["limit_s"], also=(Path(job["source"]),))
    child = os.fork()
    if child == 0:
        sandbox.seal()
        run(job)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    report = Path(job["report"])
    if not report.exists():
        return  # it ended itself, by whatever status; the caller says so
    try:
        found = json.loads(report.read_text())
        if found["ok"]:
            started = time.perf_counter()
            link(sorted(scratch.glob("*.o")), Path(job["object"]))
            found["seconds"] += time.perf_counter() - started
    except Exception as error:
        found = {"ok": False, "error": _plain(str(error))}
    _write(report, found)


def run(job: dict[str, Any]) -> None:
    """Compile one job's objects; the report says ok, or what failed and where."""
    started = time.perf_counter()
    report: dict[str, Any] = {"ok": False}
    log = Path(job["log"])
    try:
        with _captured(log):
            faulthandler.dump_traceback_later(max(job["limit_s"] - 2, 1), file=2)
            faulthandler.register(signal.SIGUSR1, file=2)
            report = _build(job)
        report["ok"] = True
    except BaseException as error:  # the DSL raises classes of its own, some of them not Exceptions
        report["error"] = _plain(f"{type(error).__name__}: {error}")
        report["where"] = _candidate_line(error, job["source"])
        report["trace"] = _plain("".join(traceback.format_exception(error)))[-4000:]
    report["seconds"] = time.perf_counter() - started
    report["cpu_seconds"] = time.process_time()
    report["spill_bytes"] = _spills(log)
    _write(Path(job["report"]), report)


def _write(path: Path, report: dict[str, Any]) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(report))
    part.replace(path)


def _build(job: dict[str, Any]) -> dict[str, Any]:
    import quack.gemm_runtime.host as host
    from quack.gemm_sm90 import GemmSm90

    from .describe import describe
    from .finish import Join, compile_join
    from .pipeline_stages import shared_out
    from .signature import Signature

    host.get_max_active_clusters = lambda clusters, *a, **k: 132 // clusters
    stages: list[int] = []
    compute = GemmSm90._compute_stages.__func__

    def recorded(cls, *args, **kwargs):
        found = shared_out(compute, cls, *args, **kwargs)
        stages.append(int(found[0]))
        return found

    GemmSm90._compute_stages = classmethod(recorded)

    epilogue = _load(Path(job["source"]))
    signature = Signature.model_validate(job["signature"])
    if job["tier"] == "cutedsl":
        signature = describe(epilogue, signature)
    mod = epilogue.epilogue
    plan = _plan(mod, signature)
    folder = Path(job["folder"])
    plan.compiled_fn.export_to_c(object_file_path=str(folder / "gemm.o"), function_name=signature.symbol)
    for sink in signature.sinks:
        if sink.join == "select":
            continue
        join = Join(sink.direction, sink.join, sink.stride, sink.offset, sink.out_stride, sink.out_offset)
        path = folder / f"join_{sink.field}.o"
        compile_join(join).export_to_c(object_file_path=str(path), function_name=signature.join_symbol(sink))
    fields = tuple(plan.gemm_cls.EpilogueArguments._fields)
    return {
        "signature": signature.model_copy(update={"fields": fields}).model_dump(mode="json"),
        "stages": stages[-1] if stages else None,
    }


def _load(path: Path) -> Any:
    """Import the source as a real file: quack fingerprints functions by their file and source."""
    spec = importlib.util.spec_from_file_location(f"epilogue_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "epilogue"):
        raise AttributeError(
            "the module defines no `epilogue`; decorate a function of that name with gemm_epilogue(...)"
        )
    return module


def _plan(mod: Any, signature: Any) -> Any:
    import torch

    from .launch import TORCH_DTYPES

    sizes = _sizes(signature)

    def empty(shape: tuple[int, ...], dtype: str) -> Any:
        return torch.empty(shape, dtype=TORCH_DTYPES[dtype], device="meta")

    def tensor(name: str) -> Any:
        spec = signature.tensors[name]
        return empty(spec.size(sizes), spec.dtype)

    a, b = tensor(signature.a), tensor(signature.b)
    b_kn = not signature.b_transposed
    m, n = (a.shape[1] if signature.a_transposed else a.shape[0]), (b.shape[1] if b_kn else b.shape[0])
    schedule = signature.schedule
    values: dict[str, Any] = {}
    for argument in signature.arguments:
        spec = signature.tensors.get(argument.name)
        if argument.role == "scalar":
            values[argument.field] = 1.0
        elif argument.role == "constant":
            values[argument.field] = argument.value
        elif argument.role in ("row", "col", "index"):
            values[argument.field] = empty((1, *spec.size(sizes)), spec.dtype)
        elif argument.role in ("tile", "store"):
            values[argument.field] = tensor(argument.name)
        elif argument.join == "select":
            values[argument.field] = empty((m,), "f32")
        elif argument.direction == "row":
            values[argument.field] = empty((m, -(-n // schedule.tile_n)), "f32")
        else:
            values[argument.field] = empty((-(-m // schedule.tile_m), n), "f32")
    return mod.gemm(
        a.t() if signature.a_transposed else a,
        b,
        tensor(signature.d) if signature.d else None,
        tensor(signature.c) if signature.c else None,
        epi_args=values,
        tile_M=schedule.tile_m,
        tile_N=schedule.tile_n,
        cluster_M=schedule.cluster_m,
        cluster_N=schedule.cluster_n,
        pingpong=schedule.pingpong,
        max_swizzle_size=schedule.swizzle,
        b_kn=b_kn,
        concat_layout=("B",) if signature.tensors[signature.b].halves else None,
        add_to_output=bool(signature.accumulates),
        _launch=False,
    )


def _sizes(signature: Any) -> dict[str, int]:
    """Sizes for the symbols: the product's own near SIDE, others small."""
    sizes: dict[str, int] = {}
    a, b = signature.tensors[signature.a], signature.tensors[signature.b]
    wanted = {
        a.shape[1 if signature.a_transposed else 0]: SIDE["m"],
        b.shape[0 if signature.b_transposed else 1]: SIDE["n"],
        a.shape[0 if signature.a_transposed else 1]: SIDE["k"],
    }
    for (coefficient, symbol), size in wanted.items():
        if symbol:
            sizes[symbol] = size // coefficient
    for spec in signature.tensors.values():
        for _, symbol in spec.shape:
            if symbol:
                sizes.setdefault(symbol, 64)
    return sizes


@contextlib.contextmanager
def _captured(log: Path):
    """Send everything written to standard output and error, native code's too, to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with log.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(saved[0], 1)
            os.dup2(saved[1], 2)
            os.close(saved[0])
            os.close(saved[1])


def _spills(log: Path) -> int | None:
    """Spill-store bytes from ptxas's remarks; None where it said nothing."""
    if not log.exists():
        return None
    found = re.findall(r"(\d+) bytes spill stores", log.read_text(errors="replace"))
    return max(map(int, found)) if found else None


def _candidate_line(error: BaseException, source: str) -> int | None:
    """The last line of the candidate's file that the failure passed through."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == source and f.lineno]
    named = re.findall(re.escape(Path(source).name) + r":(\d+)", str(error))
    return int(named[-1]) if named else (lines[-1] if lines else None)


def _plain(text: str) -> str:
    """Without terminal colours, and without folders of this machine."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return text.replace(tempfile.gettempdir(), "")
