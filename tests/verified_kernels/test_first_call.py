"""The first call of a process: no compiler and no quack; on a Hopper GPU within a second of importing torch."""

import subprocess
import sys

import pytest
import torch

ABSENT = ("quack", "cutlass", "rich", "typer", "transformers", "anthropic", "openai")
PROGRAM = """
import sys, time, torch
begun = time.perf_counter()
x, w, r = (torch.empty(s, device="cuda", dtype=d) for s, d in
           (((64, 512), torch.bfloat16), ((256, 512), torch.bfloat16), ((64,), torch.float32)))
context = time.perf_counter() - begun
from codasmith.verified_kernels import load
load("rmsnorm_swiglu", strict=STRICT)(x, w, r)
if STRICT:
    torch.cuda.synchronize()
print(time.perf_counter() - begun, context, [name for name in ABSENT if name in sys.modules])
"""


def first_call(device, strict):
    """Seconds from torch imported to the first answer, those of them until tensors were there, what was imported."""
    text = PROGRAM.replace('"cuda"', f'"{device}"').replace("STRICT", str(strict)).replace("ABSENT", str(ABSENT))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    seconds, context, imported = done.stdout.split(maxsplit=2)
    return float(seconds), float(context), imported.strip()


def test_loading_and_calling_imports_no_compiler():
    assert first_call("cpu", False)[2] == "[]"


@pytest.mark.gpu
@pytest.mark.skipif(
    not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)), reason="needs a Hopper GPU"
)
def test_on_a_hopper_gpu_the_first_answer_comes_within_a_second_of_importing_torch():
    found = [first_call("cuda", True) for _ in range(3)]
    assert {imported for *_, imported in found} == {"[]"}
    assert min(seconds for seconds, *_ in found) < 1, found
