"""Makes the objects in this folder: the shipped kernels, compiled anew by the tools of CUDA 12.

python tests/verified_kernels/cuda12/make.py NAME ...

in an environment that has nvidia-cutlass-dsl-libs-cu12 and not nvidia-cutlass-dsl-libs-cu13, of which CuTeDSL takes
the newest that the driver allows; no GPU is needed.
"""

import lzma
import sys
from pathlib import Path

from codasmith.tasks import load_task
from codasmith.verified_kernels import find
from codasmith.verified_kernels.rebuild import rebuilt

HERE = Path(__file__).parent

for name in sys.argv[1:]:
    entry = find(name)
    made, library = rebuilt(entry, load_task(name), entry.record.of("bf16").objects[0])
    (HERE / f"{name}.so.xz").write_bytes(lzma.compress(library.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    (HERE / f"{name}.json").write_text(made.signature.model_dump_json() + "\n")
    print(f"{name}: {made.schedule}, sha256 {made.sha256}")
