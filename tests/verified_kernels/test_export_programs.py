"""An exported program: all its stages, and its backward program, without this package."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from codasmith.primitives import evaluate
from codasmith.tasks import draw, load_task, oracle, unfused
from codasmith.tasks.layout import to_kernel
from codasmith.templates.program import FINISH
from codasmith.verified_kernels import RegistryError, export, find, store
from codasmith.verified_kernels.export import _stages
from codasmith.verified_kernels.exported import choice, stages

SHIPPED = Path(store.__file__).parent / "kernels"
ALONE = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("codasmith", "quack", "cutlass", "pydantic"):
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Nothing())
import importlib.util, json, warnings
from pathlib import Path
import torch
build = Path(sys.argv[1]) / "build/torch-cuda"
identity = json.loads((build / "metadata.json").read_text())["id"]
spec = importlib.util.spec_from_file_location(identity, build / "__init__.py")
kernel = importlib.util.module_from_spec(spec)
sys.modules[identity] = kernel
spec.loader.exec_module(kernel)
def close(found, exact, share=2e-2):
    assert (found.double() - exact).abs().max() <= share * exact.abs().max(), (found, exact)
"""
TWO_WAYS = """
torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
names = ("x", "w_up", "w_down")
sizes = ((264, 128), (512, 128), (128, 256))
drawn = {n: (torch.randn(s, device=device) * s[1] ** -0.5 * 2).bfloat16() for n, s in zip(names, sizes)}
def graded(function, **leaves):
    leaves = {n: v.detach().requires_grad_() for n, v in leaves.items()}
    y = function(**leaves)
    y = y["y"] if isinstance(y, dict) else y[0]
    torch.manual_seed(1)
    return y.detach(), torch.autograd.grad(y, leaves.values(), torch.randn(y.shape, device=device).to(y.dtype))
y, found = graded(kernel.mlp_swiglu, **drawn)
truth, exact = graded(kernel.mlp_swiglu.reference, **{n: v.double() for n, v in drawn.items()})
close(y, truth)
for one, other in zip(found, exact):
    assert one.dtype == torch.bfloat16 and one.is_contiguous()
    close(one, other)
"""


def alone(folder, program):
    """Run a program in a process that can import neither this package nor a compiler; the words that it prints."""
    command = [sys.executable, "-c", ALONE + program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def shipped(monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)


def test_a_program_and_its_gradient_run_alone(shipped, tmp_path):
    folder = export("mlp_swiglu", tmp_path)
    said = alone(
        folder,
        f"""
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
{"".join("    " + line + chr(10) for line in TWO_WAYS.splitlines())}
    again = kernel.mlp_swiglu(**drawn)[0]
said = [str(w.message) for w in caught if "unfused reference" in str(w.message)]
assert [s.split()[0] for s in said] == ["mlp_swiglu", "mlp_swiglu_bwd"], said  # the twin was asked for the gradient
leaves = {{n: v.clone().requires_grad_() for n, v in drawn.items()}}
y, z = kernel.mlp_swiglu(**leaves)
assert all(g is not None for g in torch.autograd.grad(y.sum() + z.sum(), leaves.values()))  # z: by the reference
torch.library.opcheck(kernel.mlp_swiglu.overload, tuple(leaves.values()))
step = torch.compile(lambda **named: kernel.mlp_swiglu(**named)[0], fullgraph=True, backend="aot_eager")
print(torch.equal(step(**drawn), again), "Hopper" in kernel.mlp_swiglu.why_not(*drawn.values()))
""",
    )
    assert said == ["True", "True"]
    build = folder / "build/torch-cuda"
    assert (build / "backward_record.json").read_bytes() == (find("mlp_swiglu_bwd").path / "record.json").read_bytes()
    assert "by the backward program, mlp_swiglu_bwd" in (folder / "README.md").read_text()
    assert not (build / "rows").exists()


@pytest.mark.parametrize("name", ["mlp_swiglu", "mlp_swiglu_bwd", "linear_cross_entropy", "linear_cross_entropy_bwd"])
def test_the_stages_put_together_give_the_programs_answer(shipped, tmp_path, monkeypatch, name):
    """With each product computed on the host by the admitted epilogue, so that order, names and constants count."""
    folder = export(name, tmp_path) / "build/torch-cuda"
    task, graphs = load_task(name), find(name).graphs
    ran = []

    class Kernel:
        def __init__(self, path, signature):
            self.signature = signature
            self.stage = next(s for s, part in task.parts.items() if f"/{s}." in str(path))

        def bound(self, inputs):
            return self.launch

        def launch(self, values):
            ran.append(self.stage)
            part = task.parts[self.stage]
            named = dict(zip(self.signature.inputs, values, strict=True))
            a, b = (named[n].float() for n in (part.gemm.a, part.gemm.b))
            acc = (a.T if part.gemm.a_transposed else a) @ (b.T if part.gemm.b_transposed else b)
            operands = {n: named[n] if part.tensors[n].is_index else named[n].float() for n in part.operands}
            found = evaluate(graphs[self.stage], to_kernel(part, "acc", acc), operands)
            return tuple(found[n].to(part.outputs[n].torch_dtype("bf16")) for n in self.signature.outputs)

    def row_kernel(formula):
        from codasmith.templates.rows import row_kernel as real

        def launch(*values, **constants):
            found = real(formula).meaning(*values[: len(values) - 1], **constants)
            values[-1].copy_(found)

        return SimpleNamespace(launch=launch)

    monkeypatch.setattr(choice, "Kernel", Kernel)
    monkeypatch.setattr(choice, "hopper", lambda device: True)
    monkeypatch.setattr(choice, "refuse", lambda signature, inputs: None)
    monkeypatch.setattr("codasmith.verified_kernels.exported.rows.row_kernel", row_kernel)
    spec = json.loads((folder / "spec.json").read_text())
    inputs = draw(task, next(w for w in task.correctness_workloads("bf16") if w.family == "normal"))
    found = choice.Kernels(folder, spec).plan(tuple(inputs.values()))(tuple(inputs.values()))
    assert ran == list(task.parts)
    plain = unfused(task, inputs)
    for (output, truth), value in zip(oracle(task, inputs).items(), found, strict=True):
        budget = 2 * (plain[output].double() - truth).abs().max() + truth.abs().max() * 2**-7
        assert value.dtype == plain[output].dtype and (value.double() - truth).abs().max() <= budget, output


def test_row_kernels_of_a_program_come_along_and_stand_alone(shipped, tmp_path):
    folder = export("linear_cross_entropy", tmp_path)
    assert sorted(p.name for p in (folder / "build/torch-cuda/rows").iterdir()) == [
        "__init__.py",
        "_rows.py",
        "dlogits.py",
    ]
    assert "and triton" in (folder / "README.md").read_text()
    said = alone(
        folder,
        """
warnings.simplefilter("ignore")
from importlib import import_module
print(import_module(identity + ".rows").NAMES)
x, w = torch.randn(9, 8, requires_grad=True), torch.randn(16, 8, requires_grad=True)
target = torch.arange(9)
kernel.linear_cross_entropy(x, w, target)[0].sum().backward()
y = x.detach().requires_grad_()
torch.nn.functional.cross_entropy(y @ w.T, target, reduction="sum").backward()
print(torch.allclose(x.grad, y.grad, atol=1e-5))
""",
    )
    assert said == ["('dlogits',)", "True"]


def test_a_changed_object_of_a_program_is_refused(shipped, tmp_path):
    folder = export("mlp_swiglu", tmp_path)
    for path in (folder / "build/torch-cuda/objects").glob("down.*"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    said = alone(
        folder,
        """
operator, kept = kernel.mlp_swiglu, {}
for place, found in enumerate(operator.spec["objects"]):
    try:
        kept[found["stage"]] = operator.library(place).name
    except OSError as error:
        assert "was changed after it was exported; export it again" in str(error)
print(*kept)
""",
    )
    assert said == ["up"]


def test_formulas_are_those_of_programs():
    assert set(stages.FINISH) == set(FINISH)
    total, eps = torch.rand(5) + 1, 1e-3
    assert torch.equal(stages.FINISH["rsqrt_mean"](total, eps, d=7), FINISH["rsqrt_mean"](total, eps, d=7))
    assert torch.equal(stages.FINISH["mean"](total, d=7), FINISH["mean"](total, d=7))
    assert torch.equal(stages.FINISH["lse_minus"](total, total / 3), FINISH["lse_minus"](total, total / 3))


def test_a_constant_that_is_an_expression_is_refused():
    step = SimpleNamespace(name="statistic", constants=(("d", "2 * D"),))
    with pytest.raises(RegistryError, match="the stage statistic of p has d = '2 \\* D'"):
        _stages(SimpleNamespace(name="p", steps=(step,)))


@pytest.mark.gpu
def test_on_a_hopper_gpu_the_exported_program_runs_its_kernels_both_ways(shipped, tmp_path):
    said = alone(
        export("mlp_swiglu", tmp_path),
        'warnings.filterwarnings("error", message=".*unfused reference.*")\n'
        + TWO_WAYS
        + "assert kernel.mlp_swiglu.why_not(*drawn.values()) is None\n"
        "print('cuda' in str(y.device))\n",
    )
    assert said == ["True"]
    said = alone(
        export("linear_cross_entropy", tmp_path),
        """
warnings.filterwarnings("error", message=".*unfused reference.*")
torch.manual_seed(0)
x, w = (torch.randn(n, 256, device="cuda").mul(0.1).bfloat16().requires_grad_() for n in (300, 1024))
target = torch.randint(0, 1024, (300,), device="cuda")
loss = kernel.linear_cross_entropy(x, w, target)[0]
found = torch.autograd.grad(loss.mean(), (x, w))
leaves = [v.detach().double().requires_grad_() for v in (x, w)]
truth = torch.nn.functional.cross_entropy(leaves[0] @ leaves[1].T, target)
close(loss.mean(), truth, 1e-3)
for one, other in zip(found, torch.autograd.grad(truth, leaves)):
    close(one, other, 5e-2)
print("True")
""",
    )
    assert said == ["True"]
