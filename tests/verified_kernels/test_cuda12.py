"""Which drivers objects are for: the format of their cubins, and objects made by the tools of CUDA 12."""

import lzma
import struct
from pathlib import Path

import pytest
import torch
from codasmith.tasks import Workload, draw, load_task, oracle, unfused
from codasmith.templates import launch
from codasmith.templates.launch import Kernel
from codasmith.templates.signature import Signature
from codasmith.verified_kernels import store

FOLDER = Path(__file__).with_name("cuda12")  # made by make.py there
NAMES = sorted(p.stem for p in FOLDER.glob("*.json"))
MACHINE = 190  # of an ELF file: CUDA


def cubins(library: bytes):
    """By the cubin's place in a library, the version of its ABI and its header's version field."""
    found, place = [], 1
    while (place := library.find(b"\x7fELF", place)) >= 0:
        if struct.unpack_from("<H", library, place + 18)[0] == MACHINE:
            found.append((library[place + 8], struct.unpack_from("<I", library, place + 20)[0]))
        place += 4
    return found


def unpacked(name: str) -> bytes:
    return lzma.decompress((FOLDER / f"{name}.so.xz").read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_objects_of_cuda_12_are_in_its_format_and_hold_no_ptx(name):
    found = cubins(unpacked(name))
    assert found and {abi for abi, _ in found} == {7}
    assert {release for _, release in found} == {129}  # CUDA 12.9
    assert b".target sm_" not in unpacked(name)


def test_shipped_objects_are_in_the_format_of_cuda_13():
    entries, problems = store.scan(where=[Path(store.__file__).parent / "kernels"])
    assert entries and not problems
    for entry in entries:
        library = entry.library(entry.record.objects[0])
        assert {abi for abi, _ in cubins(library)} == {8}, entry.name
        assert b".target sm_" not in library and b"Cuda compilation tools, release 13.4" in library


@pytest.mark.parametrize(
    ("driver", "there", "taken"),
    [(13, ("cu12", "cu13"), "cu13"), (12, ("cu12", "cu13"), "cu12"), (12, ("cu13",), "cu13"), (99, ("cu13",), "cu13")],
)
def test_the_runtime_is_that_of_the_drivers_release(tmp_path, driver, there, taken):
    files = {flavour: tmp_path / "nvidia_cutlass_dsl" / flavour / "lib" / "libcute_dsl_runtime.so" for flavour in there}
    for file in files.values():
        file.parent.mkdir(parents=True)
        file.touch()
    assert launch._fitting(files["cu13"], driver) == files[taken]


def test_a_runtime_elsewhere_is_taken_as_it_is():
    alone = Path("/opt/nvidia_cutlass_dsl/lib/libcute_dsl_runtime.so")
    assert launch._fitting(alone, 12) == alone


@pytest.mark.gpu
@pytest.mark.skipif(
    not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)), reason="needs a Hopper GPU"
)
@pytest.mark.parametrize("name", NAMES)
def test_on_a_hopper_gpu_an_object_of_cuda_12_runs_and_is_right(name, tmp_path):
    library = tmp_path / f"{name}.so"
    library.write_bytes(unpacked(name))
    kernel, task = (
        Kernel(library, Signature.model_validate_json((FOLDER / f"{name}.json").read_text())),
        load_task(name),
    )
    for rows in (1, 1000, 4096):
        inputs = draw(task, Workload(sizes={s: rows if s == "M" else 1040 for s in task.symbols}), "cuda")
        results = kernel.bound(inputs)(tuple(inputs.values()))
        plain = unfused(task, inputs)
        for (output, truth), result in zip(oracle(task, inputs).items(), results, strict=True):
            budget = (plain[output].double() - truth).abs().max() * 2 + truth.abs().max() * 2**-8
            assert (result.double() - truth).abs().max() <= budget, (output, rows)
