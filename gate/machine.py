"""What this machine is: GPU, driver, versions, compiler. Read without touching CUDA where possible."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

PACKAGES = {"torch": "torch", "quack": "quack-kernels", "cutedsl": "nvidia-cutlass-dsl", "triton": "triton"}

_QUERY = "name,driver_version,compute_cap,memory.total"


@cache
def _smi() -> tuple[str, ...] | None:
    lines = smi(_QUERY)
    return lines[_visible_index()] if lines else None


def _visible_index() -> int:
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    return int(first) if first.isdigit() else 0


def smi(query: str) -> list[tuple[str, ...]] | None:
    """A line of nvidia-smi's answer a GPU; None where there is no driver."""
    if not shutil.which("nvidia-smi"):
        return None
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [tuple(part.strip() for part in line.split(",")) for line in done.stdout.splitlines() if line.strip()]
    return lines if done.returncode == 0 and lines else None


def home() -> Path:
    """The user's folder: CODASMITH_HOME, or ~/.local/share/codasmith."""
    return Path(os.environ.get("CODASMITH_HOME") or Path.home() / ".local/share/codasmith").expanduser()


def has_gpu() -> bool:
    """Whether a Hopper GPU (compute capability 9.0) can be used here."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return False
    found = _smi()
    return found is not None and found[2] == "9.0"


def versions() -> dict[str, str]:
    """The packages that a kernel depends on."""
    found = {}
    for name, package in PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def describe_machine() -> dict[str, str]:
    """For people: the GPU, its driver, versions, the C compiler that links objects, and the host."""
    found = _smi()
    compiler = shutil.which(os.environ.get("CC", "gcc"))
    return {
        "gpu": f"{found[0]} (compute capability {found[2]}, {found[3]} MiB)" if found else "none",
        "driver": found[1] if found else "none",
        **versions(),
        "linker": compiler or "none: install gcc, or set CC, to link compiled kernels",
        "processors": str(len(os.sched_getaffinity(0))),
        "platform": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }


def environment() -> dict[str, str]:
    """For a record: GPU, driver, CUDA and versions; empty where there is no GPU."""
    found = _smi()
    if not found:
        return {}
    import torch

    return {"gpu": found[0], "driver": found[1], "cuda": torch.version.cuda or "none", **versions()}
