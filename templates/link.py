"""Link what was compiled into one shared library that loads by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path


def link(objects: list[Path], target: Path) -> None:
    """Link objects into one shared library; its own symbols come first, so that two kernels never mix."""
    import tvm_ffi

    compiler = os.environ.get("CC", "gcc")
    libraries = runtime_library().parent, Path(tvm_ffi.libinfo.find_libtvm_ffi()).parent
    command = [
        compiler,
        "-shared",
        "-s",
        "-o",
        str(target),
        *map(str, objects),
        "-Wl,-Bsymbolic",
        "-Wl,--no-undefined-version",
    ]
    command += [part for folder in libraries for part in ("-L", str(folder))]
    command += ["-lcute_dsl_runtime", "-ltvm_ffi"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        raise RuntimeError(f"the linker {compiler!r} was not found; install gcc or set CC to a C compiler") from None
    if done.returncode:
        raise RuntimeError(f"linking failed: {done.stderr.strip()[-500:]}")


def runtime_library() -> Path:
    """CuTeDSL's runtime library, found without importing CuTeDSL. Raises FileNotFoundError."""
    folders = [Path(p) for p in sys.path if p] + [Path(sysconfig.get_paths()["purelib"])]
    for folder in folders:
        for pattern in (
            "nvidia_cutlass_dsl/cu13/lib/libcute_dsl_runtime.so",
            "nvidia_cutlass_dsl/lib/libcute_dsl_runtime.so",
        ):
            if (folder / pattern).exists():
                return folder / pattern
        for found in folder.glob("nvidia_cutlass_dsl*/**/libcute_dsl_runtime.so"):
            return found
    raise FileNotFoundError("libcute_dsl_runtime.so was not found; install nvidia-cutlass-dsl-libs-cu13")
