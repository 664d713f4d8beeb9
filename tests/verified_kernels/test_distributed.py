"""Modules under DistributedDataParallel and fully_shard: two processes learn what one would."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAM = Path(__file__).with_name("two_processes.py")


def together(which, world, device, backend, tmp_path):
    meeting = tmp_path / "meeting"
    commands = [
        [sys.executable, str(PROGRAM), which, str(rank), str(world), device, backend, str(meeting)]
        for rank in range(world)
    ]
    started = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for c in commands]
    said = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0] * world, "\n".join(said)


@pytest.mark.parametrize("which", ["ddp", "fsdp"])
def test_two_processes_learn_what_one_would(which, tmp_path):
    together(which, 2, "cpu", "gloo", tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("which", ["ddp", "fsdp"])
def test_on_gpus_they_learn_what_one_process_would(which, tmp_path):
    """NCCL wants a GPU for each process: with one GPU, DDP's two share it through gloo and FSDP has one process."""
    if torch.cuda.device_count() >= 2:
        together(which, 2, "cuda", "nccl", tmp_path)
    elif which == "ddp":
        together(which, 2, "cuda", "gloo", tmp_path)
    else:
        together(which, 1, "cuda", "nccl", tmp_path)
