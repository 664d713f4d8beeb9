"""The launch of an exported kernel, without a GPU: a stand-in for its compiled calls tells what they were given."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from codasmith.templates import launch
from codasmith.verified_kernels import export, find, store
from codasmith.verified_kernels.exported import signature as exported
from pydantic import BaseModel

SHIPPED = Path(store.__file__).parent / "kernels"
LAUNCHED = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("codasmith", "quack", "cutlass", "pydantic"):
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Nothing())
import importlib, importlib.util, json, types, warnings
from pathlib import Path
import torch

warnings.simplefilter("error")
calls = []
class Library:
    def __getitem__(self, symbol):
        return lambda *arguments: calls.append((symbol, arguments))
sys.modules["tvm_ffi"] = types.SimpleNamespace(load_module=lambda path: Library())
build = Path(sys.argv[1]) / "build/torch-cuda"
identity = json.loads((build / "metadata.json").read_text())["id"]
spec = importlib.util.spec_from_file_location(identity, build / "__init__.py")
kernel = importlib.util.module_from_spec(spec)
sys.modules[identity] = kernel
spec.loader.exec_module(kernel)

class OnGpu(torch.Tensor):  # a CPU tensor that is taken for one on a GPU
    is_cuda = property(lambda self: True)
def seen(value):
    return value.as_subclass(OnGpu) if isinstance(value, torch.Tensor) else value
def drawn(*shape):
    return torch.randn(shape).bfloat16()
launch, bound, choice = (importlib.import_module(f"{identity}.{name}") for name in ("launch", "bound", "choice"))
launch._runtime, launch.processors = lambda: None, lambda device: 132
bound._current_device = lambda: None
choice.hopper, refuse = lambda device: True, choice.refuse
choice.refuse = lambda signature, inputs: refuse(signature, {n: seen(v) for n, v in inputs.items()})
def tell():
    "What each product and each join was given."
    for _, given in calls:
        if len(given) > 2:
            print(*(None if t is None else list(t.shape) for t in given[:4]))
        else:
            partials, total = given
            print("row" if partials.shape[0] == len(total) else "column", "sums", list(total.shape))
            assert partials.shape[partials.shape[0] != len(total)] == len(total) and partials.is_contiguous()
"""


def launched(folder, program):
    """Run a program in a process where the package's compiled calls only note what they get; its lines."""
    command = [sys.executable, "-c", LAUNCHED + program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(autouse=True)
def shipped(monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)


def test_a_kernel_gets_its_tensors_fresh_outputs_and_workspace(tmp_path):
    said = launched(
        export("residual_partial_rmsnorm", tmp_path),
        """
operator = kernel.residual_partial_rmsnorm
a, w, x, gamma = drawn(200, 64), drawn(320, 64), drawn(200, 320), drawn(320)
assert operator.why_not(a, w, x, gamma) is None
h, g, sumsq = operator(a, w, x, gamma)
(gemm, given), (join, (partials, total)) = calls
assert join.startswith(gemm + "_join_")
assert [t.data_ptr() for t in (given[0], given[1], given[3])] == [t.data_ptr() for t in (a, w, x)]
assert given[2].data_ptr() == h.data_ptr() and total.data_ptr() == sumsq.data_ptr()
fields = {t.data_ptr(): list(t.shape) for t in given[4] if t is not None}
assert fields == {gamma.data_ptr(): [1, 320], g.data_ptr(): [200, 320], partials.data_ptr(): list(partials.shape)}
assert (h.dtype, g.dtype, total.dtype, partials.dtype) == (torch.bfloat16, torch.bfloat16) + (torch.float32,) * 2
print(list(h.shape), list(g.shape), list(total.shape), given[6:])
print(json.dumps(list(partials.shape)))
print(given[5])
""",
    )
    signature = _best("residual_partial_rmsnorm")
    ((rows, columns),) = launch.workspace_shapes(signature, 200, 320).values()
    swizzle, clusters = signature.schedule.swizzle, 132 // signature.schedule.cluster
    assert said == [
        "[200, 320] [200, 320] [200] (None, None, None)",
        f"[{rows}, {columns}]",
        f"({clusters}, None, {swizzle}, None, None, None)",
    ]
    assert rows == 200 and columns in (2, 3)


def _best(name):
    record = find(name).record
    key = record.evidence[0].best[0].schedule
    return next(o.signature for o in record.objects if o.schedule == key)


def test_a_program_and_its_gradient_make_every_call(tmp_path):
    said = launched(
        export("rmsnorm_mlp_swiglu", tmp_path),
        """
sizes = {"a": (264, 64), "w_o": (128, 64), "x": (264, 128), "gamma": (128,), "w_up": (512, 128), "w_down": (128, 256)}
values = {name: drawn(*shape).requires_grad_() for name, shape in sizes.items()}
y = kernel.rmsnorm_mlp_swiglu(**values, eps=1e-6)[0]
products = [given for _, given in calls if len(given) > 2]
assert products[-1][2].data_ptr() == y.data_ptr()
tell()
calls.clear()
leaves = list(values.values())
found = torch.autograd.grad(y, leaves, torch.ones_like(y))
assert [f.shape for f in found] == [v.shape for v in leaves]
print("backward")
tell()
""",
    )
    assert said == [
        "[264, 64] [128, 64] [264, 128] [264, 128]",
        "row sums [264]",
        "[264, 128] [512, 128] [264, 512] None",
        "[264, 256] [128, 256] [264, 128] [264, 128]",
        "backward",
        "[264, 128] [128, 256] [264, 512] [264, 512]",
        "row sums [264]",
        "[128, 264] [264, 256] [128, 256] None",
        "[264, 512] [512, 128] [264, 128] [264, 128]",
        "column sums [128]",
        "[512, 264] [264, 128] [512, 128] None",
        "[264, 128] [128, 64] [264, 64] None",
        "[128, 264] [264, 64] [128, 64] None",
    ]


def test_nothing_that_the_launcher_reads_is_missing_in_the_package():
    """Fields, properties and methods of the record's signature, by the names that the package's modules mention."""
    folder, read = Path(launch.__file__).parent, set()
    for file in (folder / "launch.py", folder / "bound.py", *Path(exported.__file__).parent.glob("*.py")):
        read |= {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
    compared = set()
    for name in ("residual_partial_rmsnorm", "linear_col_absmax", "linear_cross_entropy", "linear_cross_entropy_bwd"):
        for ours in (o.signature for o in find(name).record.objects):
            theirs = exported.Signature.read(json.loads(json.dumps(ours.model_dump(mode="json"))))
            pairs = [(ours, theirs), (ours.schedule, theirs.schedule), *zip(ours.sinks, theirs.sinks, strict=True)]
            pairs += zip(ours.arguments, theirs.arguments, strict=True)
            pairs += ((spec, theirs.tensors[n]) for n, spec in ours.tensors.items())
            for one, other in pairs:
                properties = {n for n, v in vars(type(one)).items() if isinstance(v, property)}
                members = {*properties, *type(one).model_fields} - ({"name"} if one is ours.schedule else set())
                for member in members & read:
                    value = getattr(one, member)
                    assert hasattr(other, member), (type(one), member)
                    if not _made_of_models(value):
                        assert getattr(other, member) == value, (type(one), member)
                        compared.add((type(one).__name__, member))
    assert {
        ("Signature", "b_transposed"),
        ("Schedule", "cluster"),
        ("TensorSpec", "text"),
        ("Argument", "join"),
    } <= compared
    with pytest.raises(
        AttributeError, match=r"the signature in spec.json has no thread_count; export the kernel again"
    ):
        theirs.thread_count  # noqa: B018


def _made_of_models(value):
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
    return any(isinstance(part, BaseModel) for part in parts)
