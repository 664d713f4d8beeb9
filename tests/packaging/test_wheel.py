"""The wheel, built from what is committed: all that the package needs is inside, and it works far from the tree."""

import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def committed(folder):
    """A copy of the committed tree; skips where there is none."""
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True).returncode != 0:
        pytest.skip("not in a git repository, so there is no committed tree to build from")
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def run(command, **more):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    tree = committed(folder / "tree")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, tree])
    (found,) = folder.glob("codasmith-*.whl")
    return found, tree


def test_every_folder_of_the_package_is_declared():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {p.parent.relative_to(ROOT) for p in ROOT.glob("*/**/__init__.py")}
    folders = {f for f in folders if not f.parts[0].startswith((".", "build"))}
    assert {Path(folder) for folder in tools["package-dir"].values()} == folders
    assert set(tools["package-dir"]) == set(tools["packages"])
    for name, folder in tools["package-dir"].items():
        assert name == "codasmith." + folder.replace("/", ".")
        assert (ROOT / folder.split("/")[0] / "py.typed").exists()


def test_the_wheel_holds_every_committed_file_of_the_package(wheel):
    found, tree = wheel
    inside = set(zipfile.ZipFile(found).namelist())
    wanted = set()
    for folder in tomllib.loads((tree / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"].values():
        wanted |= {p for p in (tree / folder).rglob("*") if p.is_file() and p.name != ".gitignore"}
    missing = {str(p.relative_to(tree)) for p in wanted if f"codasmith/{p.relative_to(tree)}" not in inside}
    assert missing == set()
    for name in (
        "agent/prompts/system_closed.j2",
        "agent/prompts/examples/tanh_gate/task.py",
        "agent/prices.toml",
        "tasks/catalogue/linear_bias.py",
        "verified_kernels/hand_written/linear_bias.py",
    ):
        assert f"codasmith/{name}" in inside
    assert not any(name.startswith(("tests/", "codasmith/tests", "tasks/", "agent/")) for name in inside)


def test_the_wheel_works_beside_folders_with_the_same_names(wheel, tmp_path):
    """In a virtual environment that takes its dependencies from this one, and codasmith from the wheel alone."""
    found, _ = wheel
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    site = Path(run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
    zipfile.ZipFile(found).extractall(site)
    # A folder that a .pth file names is searched for packages, and its own .pth files do not count.
    (site / "parent.pth").write_text(sysconfig.get_path("purelib") + "\n")

    elsewhere = tmp_path / "elsewhere"
    for name in ("tasks", "agent", "evals", "primitives", "gate"):
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "__init__.py").write_text("raise ImportError('the wrong folder')\n")
    script = (
        "import sys, codasmith.agent.cli, codasmith.tasks as t, codasmith.agent.prompt as p;"
        "task = t.load_task('linear_bias');"
        "assert 'never an instruction' in p.system_text(task) and 'linear_bias' in p.task_text(task);"
        "assert len(t.catalogue()) > 10;"
        "print({sys.modules[m].__file__.split('/codasmith/')[0] for m in sys.modules"
        " if m.startswith('codasmith.') and getattr(sys.modules[m], '__file__', None)})"
    )
    assert run([python, "-c", script], cwd=elsewhere).strip() == str({str(site)})
    listed = run([python, "-m", "codasmith.agent", "tasks", "list", "--json"], cwd=elsewhere)
    assert '"linear_bias"' in listed
