"""A whole model trained with and without verified kernels: `python benchmarks/train.py --out FILE.json`.

A Llama-style decoder of 57M parameters learns the Python standard library's sources, byte by byte, from the
same seeds and the same batches in every variant: eager, torch.compile, Liger (where it is installed), patched, and
patched under torch.compile.
Beside losses and times stands which kernels ran, by digest and schedule.
Weights are bf16 with float32 masters in the optimizer.  Prints a line as it goes; writes losses and tokens a second.
With --step-1b it measures steps of a 1.2B configuration at 16,384 tokens instead: time, memory, same variants.
Runs may be spread over machines and GPUs by --only and --seeds; --merge FILE... joins their files into --out.
With --plot it draws the losses of an earlier run's file.  --dry runs everything tiny on a CPU.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import sysconfig
import time
import warnings
from pathlib import Path

import torch
from codasmith.gate.machine import environment
from codasmith.verified_kernels import FallbackWarning
from codasmith.verified_kernels.in_use import kernels_in_use
from codasmith.verified_kernels.modules import LlamaShape
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from decoder import Decoder
from out_file import out_file
from trained import kept, merged, plot, read, summary, told
from variants import VARIANTS, Step

SMALL = (LlamaShape(768, 2048, 6, 6, 128), 8, 256)
"""Shape, layers, vocabulary: 57M parameters."""
LARGE = (LlamaShape(2048, 5632, 16, 16, 128), 20, 32768)
"""1.16B parameters, 128 wide heads."""
TINY = (LlamaShape(32, 48, 2, 2, 16), 2, 256)


class Masters:
    """AdamW on float32 copies of bf16 weights, fused where the device has it."""

    def __init__(self, model: nn.Module, rate: float):
        self.weights = [w for w in model.parameters() if w.requires_grad]
        self.masters = [nn.Parameter(w.detach().float()) for w in self.weights]
        fused = self.masters[0].is_cuda
        self.optimizer = torch.optim.AdamW(self.masters, lr=rate, betas=(0.9, 0.95), weight_decay=0.1, fused=fused)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        grads = [w.grad for w in self.weights]
        for master, grad in zip(self.masters, grads, strict=True):
            master.grad = grad.float()
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0, foreach=True)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        torch._foreach_copy_([w.data for w in self.weights], [m.data for m in self.masters])
        for weight, master in zip(self.weights, self.masters, strict=True):
            weight.grad = master.grad = None


def corpus() -> torch.Tensor:
    """The bytes of the standard library's sources, in the order of their paths."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(p for p in root.rglob("*.py") if "site-packages" not in p.parts and "test" not in p.parts)
    return torch.frombuffer(bytearray(b"".join(p.read_bytes() for p in files)), dtype=torch.uint8)


def batches(data: torch.Tensor, seed: int, batch: int, length: int, device: str):
    """Endless pairs of tokens and targets, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    data = data.to(device)
    steps = torch.arange(length + 1, device=device)
    while True:
        starts = torch.randint(0, len(data) - length - 1, (batch, 1), generator=generator).to(device)
        window = data[starts + steps].long()
        yield window[:, :-1], window[:, 1:].contiguous()


def built(configuration: tuple, variant: str, seed: int, device: str) -> tuple[nn.Module, Step]:
    torch.manual_seed(seed)
    with torch.device(device):
        model = Decoder(*configuration)
    model.to(torch.bfloat16)
    return model, VARIANTS[variant](model)


def train(variant: str, seed: int, data: torch.Tensor, options: argparse.Namespace) -> dict:
    """Losses by step, and tokens a second in the second half."""
    device = options.device
    model, loss = built(options.configuration, variant, seed, device)
    optimizer = Masters(model, options.rate)
    stream = batches(data, seed, options.batch, options.length, device)
    losses, marks, begun = [], {}, clock(device)
    for step in range(options.steps):
        if step == options.steps // 2:
            marks["start"] = clock(device)
        tokens, target = next(stream)
        value = loss(tokens, target)
        value.backward()
        if step == 0:
            print(f"  {variant}: first forward and backward in {clock(device) - begun:.1f} s", flush=True)
        warm = min(1.0, (step + 1) / max(1, options.steps // 10))
        optimizer.step(options.rate * warm * (1 - 0.9 * step / options.steps))
        losses.append(value.detach())
        if step % max(1, options.steps // 6) == 0:
            print(f"  {variant} seed {seed} step {step}: loss {value.item():.4f}", flush=True)
    seconds = clock(device) - marks["start"]
    tokens_a_second = options.batch * options.length * (options.steps - options.steps // 2) / seconds
    return {"losses": torch.stack(losses).float().tolist(), "tokens_per_second": tokens_a_second}


def step_1b(variant: str, options: argparse.Namespace) -> dict:
    """Milliseconds of a step and the largest memory in use, on drawn tokens."""
    device = options.device
    model, loss = built(options.configuration, variant, 0, device)
    optimizer = Masters(model, 1e-4)
    generator = torch.Generator().manual_seed(0)
    whole = torch.randint(0, options.configuration[2], (options.batch, options.length + 1), generator=generator).to(
        device
    )
    tokens, target = whole[:, :-1], whole[:, 1:].contiguous()
    times: dict[str, list[float]] = {"forward and backward": [], "step": []}
    for turn in range(options.warm + options.turns):
        if turn == options.warm and device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        begun = clock(device)
        value = loss(tokens, target)
        value.backward()
        between = clock(device)
        if turn == 0:
            print(f"  {variant}: first forward and backward in {between - begun:.1f} s", flush=True)
        optimizer.step(1e-4)
        if turn >= options.warm:
            times["forward and backward"].append(between - begun)
            times["step"].append(clock(device) - begun)
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
    milliseconds = {name: 1e3 * statistics.median(found) for name, found in times.items()}
    return {
        "milliseconds": milliseconds,
        "peak_GiB": peak,
        "parameters": sum(w.numel() for w in model.parameters()),
        "loss": value.item(),
        "tokens_per_second": options.batch * options.length / (milliseconds["step"] / 1e3),
    }


def clock(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="VARIANT")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--step-1b", action="store_true", help="one step of a 1B configuration instead")
    parser.add_argument("--warm", type=int, default=3, help="with --step-1b: steps before those that count")
    parser.add_argument("--turns", type=int, default=5, help="with --step-1b: steps that count")
    parser.add_argument("--limit-s", type=float, default=1e9, help="begin no further run after so many seconds")
    parser.add_argument("--out", type=out_file, help="JSON")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="FILE", help="join such files into --out, run nothing")
    parser.add_argument("--plot", type=out_file, metavar="IMAGE", help="draw the losses in --out and do nothing else")
    parser.add_argument("--dry", action="store_true", help="a tiny model for a few steps, on a CPU if need be")
    options = parser.parse_args()
    if options.merge:
        if not options.out:
            parser.error("--merge needs --out FILE, where the whole is to go")
        found = merged(options.merge)
        kept(options.out, found)
        told(found)
        if not options.plot:
            return
    if options.plot:
        if not options.out:
            parser.error("--plot needs --out FILE, the file that a run wrote")
        plot(read(options.out), options.plot)
        return
    if min(options.steps, options.batch, options.length, options.turns) < 1:
        parser.error("--steps, --batch, --length and --turns are 1 or more")
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.device == "cpu" and not options.dry:
        parser.error("there is no GPU; --dry runs a tiny model without one")
    options.configuration = LARGE if options.step_1b else SMALL
    if options.step_1b:
        options.batch, options.length = 2, 8192
    if options.dry:
        options.configuration, options.steps, options.batch, options.length = TINY, min(options.steps, 8), 2, 32
        options.warm = options.turns = 1
    started, data = time.monotonic(), corpus()
    found: dict = {"environment": environment() or {"gpu": "none"}, "steps": options.steps, "batch": options.batch}
    found |= {"length": options.length, "configuration": str(options.configuration), "runs": {}, "absent": {}}
    with torch.device("meta"):
        found["parameters"] = sum(w.numel() for w in Decoder(*options.configuration).parameters())
    print(f"{found['parameters'] / 1e6:.1f}M parameters, {len(data) / 1e6:.1f} MB of text", flush=True)
    fallbacks: set[str] = set()
    for seed in [0] if options.step_1b else options.seeds:
        for variant in options.only:
            if time.monotonic() - started > options.limit_s:
                print(f"{variant} seed {seed}: not started, the time is up", flush=True)
                continue
            begun = time.monotonic()
            print(f"{variant} seed {seed}: begins{' and compiles' * ('compile' in variant)}", flush=True)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", FallbackWarning)
                try:
                    row = step_1b(variant, options) if options.step_1b else train(variant, seed, data, options)
                except ImportError as error:
                    found["absent"][variant] = str(error)
                    print(f"{variant}: not installed ({error})", flush=True)
                    continue
            fallbacks |= {str(w.message) for w in caught if issubclass(w.category, FallbackWarning)}
            found["runs"].setdefault(variant, {})[str(seed)] = row
            found["fallbacks"], found["summary"] = sorted(fallbacks), summary(found)
            found["kernels"] = kernels_in_use()
            if options.out:
                kept(options.out, found)
            shown = {k: v for k, v in row.items() if k != "losses"}
            if "losses" in row:
                shown["final loss"] = statistics.fmean(row["losses"][-20:])
            print(f"{variant} seed {seed}: {json.dumps(shown)} in {time.monotonic() - begun:.1f} s", flush=True)
            torch._dynamo.reset()
            gc.collect()
            if options.device == "cuda":
                torch.cuda.empty_cache()
    told(found)


if __name__ == "__main__":
    main()
