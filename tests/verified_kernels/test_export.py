"""An exported kernel: a package that needs nothing of this one, and says what it holds."""

import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from codasmith.verified_kernels import RegistryError, admit, export, find, store
from codasmith.verified_kernels.export import reference_of

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
def imported(build):
    identity = json.loads((build / "metadata.json").read_text())["id"]
    spec = importlib.util.spec_from_file_location(identity, build / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[identity] = module
    spec.loader.exec_module(module)
    return module
build = Path(sys.argv[1]) / "build/torch-cuda"
"""


def alone(folder, program, loaded="kernel = imported(build)\n", **how):
    """Run a program in a process that can import neither this package nor a compiler."""
    command = [sys.executable, "-c", ALONE + loaded + program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def shipped(monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)


def test_a_package_first_on_the_path_hides_no_module_of_python_or_torch(shipped, tmp_path):
    folder = export("mlp_swiglu", tmp_path)
    build = folder / "build/torch-cuda"
    names = {path.stem for path in build.glob("*.py")} | {path.name for path in build.iterdir() if path.is_dir()}
    assert not names & sys.stdlib_module_names
    program = (
        "import codasmith_mlp_swiglu as kernel; print(kernel.__all__, kernel.mlp_swiglu.twin is kernel.mlp_swiglu_bwd)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, env={"PYTHONPATH": str(build)}
    )
    assert said.stdout == "['mlp_swiglu', 'mlp_swiglu_bwd'] True\n", said.stderr


def test_the_package_answers_by_its_reference_where_no_kernel_runs(shipped, tmp_path):
    folder = export("linear_swiglu", tmp_path)
    said = alone(
        folder,
        """
x, w = torch.randn(6, 16, dtype=torch.bfloat16), torch.randn(64, 16, dtype=torch.bfloat16)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    z, o = kernel.linear_swiglu(x, w=w)
    kernel.linear_swiglu(x, w)
assert len(caught) == 1 and "runs its unfused reference: the tensors are on cpu" in str(caught[0].message)
gate, up = (x @ w.T).chunk(2, -1)
assert torch.equal(o, torch.nn.functional.silu(gate) * up) and torch.equal(z[:, 0::2], gate)
assert "Hopper" in kernel.linear_swiglu.why_not(x, w)
leaf = x.clone().requires_grad_()
kernel.linear_swiglu(leaf, w)[1].sum().backward()
y = x.clone().requires_grad_()
gate, up = (y @ w.T).chunk(2, -1)
(torch.nn.functional.silu(gate) * up).sum().backward()
assert torch.equal(leaf.grad, y.grad)
torch.library.opcheck(kernel.linear_swiglu.overload, (x, w))
file = build / "codasmith_linear_swiglu/__init__.py"
older = importlib.util.spec_from_file_location("older", file)
module = importlib.util.module_from_spec(older)
older.loader.exec_module(module)
assert module.linear_swiglu is kernel.linear_swiglu
try:
    kernel.linear_swiglu(x)
except ValueError as error:
    print("takes x, w; pass each once" in str(error))
""",
    )
    assert said == ["True"]


def test_an_output_added_in_place_stays_one(sample, evaluation, tmp_path):
    task = sample("sample_accumulate")
    admit(evaluation(task), task, author="x")
    said = alone(
        export("sample_accumulate", tmp_path),
        """
dy, w, dx = torch.randn(3, 8), torch.randn(8, 4), torch.ones(3, 4)
warnings.simplefilter("ignore")
sums, result = kernel.sample_accumulate(dy, w, dx)
print(result is dx, torch.allclose(dx, 1 + dy @ w), torch.allclose(sums, (dy @ w).sum(-1)))
""",
    )
    assert said == ["True"] * 3


def test_an_output_added_in_place_may_be_the_only_one(sample, evaluation, tmp_path):
    task = sample("sample_add")
    admit(evaluation(task), task, author="x")
    said = alone(
        export("sample_add", tmp_path),
        """
dy, x, dw = torch.randn(3, 8), torch.randn(3, 4), torch.ones(8, 4)
warnings.simplefilter("ignore")
print(kernel.sample_add(dy, x, dw) is dw, torch.allclose(dw, 1 + dy.T @ x))
torch.library.opcheck(kernel.sample_add.overload, (dy, x, dw))
""",
    )
    assert said == ["True"] * 2


def test_a_changed_object_is_refused(shipped, tmp_path):
    folder = export("linear_rope", tmp_path)
    objects = sorted((folder / "build/torch-cuda/objects").iterdir())
    objects[0].write_bytes(objects[0].read_bytes()[:-1] + b"x")
    said = alone(
        folder,
        """
operator, refused = kernel.linear_rope, 0
for place in range(len(operator.spec["objects"])):
    try:
        operator.library(place)
    except OSError as error:
        refused += "was changed after it was exported; export it again" in str(error)
print(refused)
""",
    )
    assert len(objects) > 1 and said == ["1"]


def test_metadata_names_every_file_by_its_digest(shipped, tmp_path):
    folder = export("rmsnorm_swiglu", tmp_path)
    build = folder / "build/torch-cuda"
    found = json.loads((build / "metadata.json").read_text())
    assert found["name"] == "codasmith-rmsnorm-swiglu" and found["id"].isidentifier()
    assert found["backend"] == {"type": "cuda", "archs": ["9.0a"]} and found["license"] == "Apache-2.0"
    files = {str(p.relative_to(build)) for p in build.rglob("*") if p.is_file()}
    assert files == {*found["digest"]["files"], "metadata.json"}
    for name, digest in found["digest"]["files"].items():
        assert base64.b64decode(digest) == hashlib.sha256((build / name).read_bytes()).digest()
    entry = find("rmsnorm_swiglu")
    assert (build / "record.json").read_bytes() == (entry.path / "record.json").read_bytes()
    assert (folder / "LICENSE").read_text().lstrip().startswith("Apache License")
    assert entry.name in (folder / "README.md").read_text()
    assert not [p for p in build.rglob("*.py") if "codasmith" in _imports(p)]


def _imports(path):
    return {
        line.split()[1].split(".")[0] for line in path.read_text().splitlines() if line.startswith(("import ", "from "))
    }


def test_the_command_says_where_the_package_is_or_what_is_wrong(shipped, tmp_path):
    from codasmith.agent.cli import app
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, ["kernels", "export", "linear_rope", "--to", str(tmp_path), "--json"])
    assert done.exit_code == 0 and Path(json.loads(done.stdout)["folder"]) == tmp_path / "codasmith-linear-rope"
    again = CliRunner().invoke(app, ["kernels", "export", "linear_rope", "--to", str(tmp_path)])
    assert again.exit_code != 0 and "is there already" in again.output


def test_what_cannot_be_exported_says_why(shipped, sample, evaluation, tmp_path):
    export("linear_rope", tmp_path)
    with pytest.raises(RegistryError, match="codasmith-linear-rope is there already"):
        export("linear_rope", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RegistryError, match="cannot be written"):
        export("linear_softcap", tmp_path / "file")
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []
    with pytest.raises(RegistryError, match="the reference f cannot stand alone"):
        reference_of("from codasmith.tasks import halves\nTHREE = halves(6)\ndef f(x):\n    return x", "f")


@pytest.mark.parametrize("name", ["rmsnorm_swiglu", "mlp_swiglu"])
def test_the_library_that_it_is_laid_out_for_loads_it(shipped, tmp_path, name):
    """kernels looks for a build for the machine's backend; here it is told that there is CUDA."""
    pytest.importorskip("kernels", reason="pip install kernels, to load a package as its users do")
    program = f"""
torch.version.cuda = torch.version.cuda or "13.0"
from kernels import get_local_kernel
found = get_local_kernel(Path(sys.argv[1]))
print(found.{name}.__name__, found.__name__, get_local_kernel(Path(sys.argv[1])).{name} is found.{name})
"""
    said = alone(export(name, tmp_path), program, loaded="")
    assert said[0] == name and said[1].startswith(f"_codasmith_{name}_") and said[2] == "True"


@pytest.mark.gpu
def test_on_a_hopper_gpu_the_exported_kernel_runs_and_is_right(shipped, tmp_path):
    folder = export("rmsnorm_swiglu", tmp_path)
    said = alone(
        folder,
        """
warnings.filterwarnings("error", message=".*unfused reference.*")
torch.manual_seed(0)
x, w = (torch.randn(n, 512, device="cuda", dtype=torch.bfloat16) for n in (1000, 2080))
w *= 512**-0.5
rstd = torch.rand(1000, device="cuda") + 0.5
operator = kernel.rmsnorm_swiglu
assert operator.why_not(x, w, rstd) is None
o = operator(x, w, rstd)
gate, up = ((x.double() @ w.double().T) * rstd.double()[:, None]).chunk(2, -1)
truth = torch.nn.functional.silu(gate) * up
plain = operator.reference(x, w, rstd)["o"]
budget = 2 * (plain.double() - truth).abs().max() + truth.abs().max() * 2**-8
print(bool((o.double() - truth).abs().max() <= budget))
print(torch.equal(torch.compile(operator, fullgraph=True)(x, w, rstd), o))
""",
    )
    assert said == ["True", "True"] and torch.cuda.is_available()
