"""How near the row kernels come to the memory's speed: `python benchmarks/rows.py [--out FILE] [--limit-s 120]`.

Each kernel at sizes of real layers: microseconds, bytes that must move over that time, the same as a share of a
device copy measured in the same run, and what torch.compile makes of the kernel's torch meaning.  --dry runs tiny
sizes on a CPU, in Triton's interpreter, to see that everything starts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
from codasmith.templates.rows import row_kernel

sys.path.insert(0, str(Path(__file__).parent))
from out_file import out_file

SIZES = {
    "rope_bwd": ((16384, 6144), (16384, 12288), (4096, 6144)),
    "qknorm_rope_bwd": ((16384, 6144), (4096, 6144)),
    "dlogits": ((16384, 32768), (4096, 128256)),
    "rms_scale": ((16384, 4096), (4096, 4096)),
    "column_sum": ((16384, 4096), (16384, 1024)),
}
HEAD = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=out_file, help="JSON lines, one measurement a line")
    parser.add_argument("--limit-s", type=float, default=120, help="start no further measurement after so many seconds")
    parser.add_argument("--dry", action="store_true", help="tiny sizes on a CPU")
    options = parser.parse_args()
    if options.dry:
        os.environ["TRITON_INTERPRET"] = "1"  # read with the first kernel, which imports Triton
    elif not torch.cuda.is_available():
        parser.error("there is no GPU; --dry runs tiny sizes without one")
    started, device = time.monotonic(), "cpu" if options.dry else "cuda"
    copy = _copy_speed(device, 2**12 if options.dry else 2**28)
    print(f"device copy: {copy / 1e12:.2f} TB/s", flush=True)
    for name, sizes in SIZES.items():
        for rows, columns in ((2, 2 * HEAD),) if options.dry else sizes:
            if time.monotonic() - started > options.limit_s:
                print(f"{name} {rows} x {columns}: not started, the time is up", flush=True)
                continue
            row = _measure(name, rows, columns, device, copy)
            print(
                f"{name} {rows} x {columns}: {row['us']:.1f} us, {row['tb_s']:.2f} TB/s, {row['of_copy']:.0%} of a "
                f"copy; torch.compile {row['compiled_us']:.1f} us",
                flush=True,
            )
            if options.out:
                with options.out.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")


def _measure(name: str, rows: int, columns: int, device: str, copy: float) -> dict:
    reads, writes, constants = _case(name, rows, columns, device)
    kernel = row_kernel(name)
    moved = sum(t.numel() * t.element_size() for t in (*reads, *writes) if isinstance(t, torch.Tensor))
    seconds = _seconds(lambda: kernel.launch(*reads, *writes, **constants), device)
    meaning = kernel.meaning if device == "cpu" else torch.compile(kernel.meaning)
    compiled = _seconds(lambda: meaning(*reads, **constants), device)
    return {
        "kernel": name,
        "rows": rows,
        "columns": columns,
        "us": seconds * 1e6,
        "tb_s": moved / seconds / 1e12,
        "of_copy": moved / seconds / copy,
        "compiled_us": compiled * 1e6,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    }


def _case(name: str, rows: int, columns: int, device: str) -> tuple[tuple, tuple, dict]:
    dtype = torch.float16 if device == "cpu" else torch.bfloat16  # Triton's interpreter rounds bf16 otherwise

    def tile() -> torch.Tensor:
        return torch.randn(rows, columns, device=device).to(dtype)

    def vector(n: int) -> torch.Tensor:
        return torch.rand(n, device=device)

    if name == "rope_bwd":
        return (tile(), tile(), tile()), (tile(), vector(rows)), {}
    if name == "qknorm_rope_bwd":
        reads = (tile(), tile(), vector(columns).to(dtype), vector(columns).to(dtype), tile(), 1e-6)
        return reads, (tile(), vector(columns)), {"head_dim": HEAD}
    if name == "dlogits":
        target = torch.randint(0, columns, (rows,), device=device)
        return (tile(), vector(rows) + 8, target, vector(rows)), (tile(),), {}
    if name == "rms_scale":
        return (tile(), vector(columns).to(dtype), 1e-6), (tile(), vector(rows)), {}
    return (tile(),), (vector(columns),), {}


def _copy_speed(device: str, elements: int) -> float:
    """Bytes read and written a second."""
    source = torch.randn(elements, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() * source.element_size() / _seconds(lambda: target.copy_(source), device)


def _seconds(call, device: str, turns: int = 20) -> float:
    """The median of single launches, each behind a write that clears the L2 cache."""
    call()
    if device == "cpu":
        begun = time.perf_counter()
        call()
        return time.perf_counter() - begun
    flush = torch.empty(2**27, dtype=torch.int8, device=device)
    times = []
    for _ in range(turns):
        torch.cuda._sleep(1_000_000)  # the host is ahead when the kernel's turn comes
        flush.zero_()
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        call()
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) / 1e3)
    return statistics.median(times)


if __name__ == "__main__":
    main()
