"""Run as a program with a device: every row kernel against its torch meaning, in each dtype, at ragged sizes.

Prints the name of each that agrees; ends with an error at the first that does not.  Used on the CPU in Triton's
interpreter (whose bf16 rounds differently, and so is left out there) and on a GPU.
"""

from __future__ import annotations

import sys

import torch
from codasmith.templates.rows import NAMES, row_kernel

SMALL = ((1, 8), (5, 1032), (2, 2056))
LARGE = ((1, 8), (1000, 1032), (257, 4104), (4099, 8192), (130, 128256))
PARTS_SMALL = ((3, 64, 8), (5, 128, 24), (2, 2, 12))
"""Rows, head_dim, heads in all: half are queries'."""
PARTS_LARGE = ((1, 64, 8), (1000, 128, 48), (4099, 128, 24), (130, 96, 20), (257, 256, 4))
HEADS_SMALL = ((1, 64, 1), (70, 128, 2))
HEADS_LARGE = ((1, 64, 1), (37, 128, 48), (1000, 128, 40), (4099, 128, 8), (64, 256, 6))


def table(rows, columns, dtype, device):
    angle = torch.rand(rows, columns // 2, device=device) * 6
    return torch.stack((angle.cos(), angle.sin()), -1).flatten(-2).to(dtype)


def cases(name, rows, columns, dtype, device, head=0):
    """Arguments, outputs to fill, constants."""

    def tile():
        return torch.randn(rows, columns, device=device).to(dtype)

    def vector(n, low=-1.0):
        return torch.rand(n, device=device) * (1 - low) + low

    if name == "rope_bwd":
        return (tile(), tile(), table(rows, columns, dtype, device)), (tile(), vector(rows)), {}
    if name == "qkv_rope_bwd":
        queries = columns // head // 2 * head
        keys = (columns - queries) // 2
        parts = (torch.randn(rows, n, device=device).to(dtype) for n in (queries, keys, keys))
        return (*parts, tile(), table(rows, head, dtype, device)), (tile(), vector(rows)), {}
    if name == "rms_scale":
        return (tile(), vector(columns, 0.5).to(dtype), 1e-5), (tile(), vector(rows)), {}
    if name == "column_sum":
        return (tile(),), (vector(columns),), {}
    if name == "dlogits":
        logits = tile()
        target = torch.randint(-1, columns, (rows,), device=device)
        return (logits, torch.logsumexp(logits.float(), -1), target, vector(rows)), (tile(),), {}
    gamma, plain = vector(columns, 0.5).to(dtype), torch.zeros(columns, device=device, dtype=dtype)
    gamma[columns - head :], plain[columns - head :] = 0, 1
    reads = (tile(), tile(), gamma, plain, table(rows, columns, dtype, device), 1e-5)
    return reads, (tile(), vector(columns)), {"head_dim": head}


def check(name, *case):
    reads, writes, constants = cases(name, *case)
    for tensor in writes:
        tensor.fill_(float("nan"))
    kernel = row_kernel(name)
    kernel.launch(*reads, *writes, **constants)
    first = [w.clone() for w in writes]
    kernel.launch(*reads, *writes, **constants)
    doubled = [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in reads]
    wanted = kernel.meaning(*doubled, **constants)
    for again, got, exact in zip(writes, first, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert torch.equal(again, got), f"{name} {case}: differs from run to run"
        # One rounding of the output, and float32 sums of float32 products.
        unit = torch.finfo(got.dtype).eps
        bound = unit * exact.abs() + 3e-6 * exact.abs().max() + 1e-7
        worst = ((got.double() - exact).abs() - bound).max()
        assert worst <= 0, f"{name} {case}: beyond the bound by {worst:.2e}, at a scale of {exact.abs().max():.2e}"


def main(device: str) -> None:
    torch.manual_seed(0)
    small = device == "cpu"
    for name in NAMES:
        for dtype in (torch.float16, torch.float32) if small else (torch.bfloat16, torch.float16, torch.float32):
            if name == "qknorm_rope_bwd":
                for rows, head, count in HEADS_SMALL if small else HEADS_LARGE:
                    check(name, rows, head * count, dtype, device, head)
            elif name == "qkv_rope_bwd":
                for rows, head, count in PARTS_SMALL if small else PARTS_LARGE:
                    check(name, rows, head * count, dtype, device, head)
            else:
                for rows, columns in SMALL if small else LARGE:
                    check(name, rows, columns, dtype, device)
        print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
