"""Export: one admitted kernel as a package of its own, in the layout that Hugging Face's `kernels` loads.

    NAME/README.md, LICENSE
    NAME/build/torch-cuda/__init__.py, metadata.json, ... , NAME/__init__.py

The package needs torch, apache-tvm-ffi and CuTeDSL's runtime library (nvidia-cutlass-dsl); neither Codasmith nor a
compiler.  Where no kernel may run it answers by its reference, and says so once.  A program brings its backward
program along where that has a kernel.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import shutil
import tempfile
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..primitives.syntax import syntax_tree
from ..tasks import ProgramTask, Task
from .assembly import whole
from .errors import RegistryError
from .load import find, load, resolve, stale
from .operator import schema
from .store import GRAPH, GRAPHS, RECORD, SOURCE, TASK, Entry
from .twin import pair

VARIANT = "torch-cuda"
# None is named like a module of Python's: the folder may stand on sys.path.
VENDORED = {
    "templates": ("launch.py", "bound.py", "link.py"),
    "verified_kernels.exported": ("operation.py", "choice.py", "stages.py", "signature.py"),
}
SPEC, BACKWARD = "spec.json", "backward.json"


def export(name: str | Entry, folder: Path) -> Path:
    """Write the kernel's package into a new folder inside `folder`, and return that.

    name: a task, or "task/digest". Raises UnknownKernel, or RegistryError where the kernel is stale or damaged, or the
    folder cannot be written or is there already.
    """
    entry = name if isinstance(name, Entry) else find(name)
    task, _ = resolve(entry.record.task)
    why = stale(entry, task)
    if why:
        raise RegistryError(f"{why}; it is not exported")
    title = f"codasmith-{task.name.replace('_', '-')}"
    target = folder / title
    if target.exists():
        raise RegistryError(f"{target} is there already; remove it or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
            made = Path(scratch) / title
            _write(made, entry, task, title)
            made.rename(target)
    except OSError as error:
        raise RegistryError(f"{target} cannot be written ({error.strerror or error}); name another folder") from None
    return target


def _write(made: Path, entry: Entry, task: Task, title: str) -> None:
    build, module = made / "build" / VARIANT, title.replace("-", "_")
    (build / "objects").mkdir(parents=True)
    (build / module).mkdir()
    identity = f"_{module}_{entry.record.digest[:10]}"
    for package, names in VENDORED.items():
        for name in names:
            (build / name).write_text((files(f"codasmith.{package}") / name).read_text())
    spec, back = _spec(build, entry, task, identity), _backward(task)
    operators = [(task, "reference.py", SPEC, spec)]
    _keep(build, entry, "")
    if back is not None:
        theirs, twin, fitted = back
        spec["twin"] = {"reads": fitted.reads, "gives": fitted.gives}
        _keep(build, theirs, "backward_")
        operators.insert(0, (twin, "backward.py", BACKWARD, _spec(build, theirs, twin, identity)))
    used = {s["formula"] for *_, data in operators for s in data["stages"] if s["kind"] == "rows"}
    for name in sorted({"__init__", "_rows", *used}) if used else ():
        (build / "rows").mkdir(exist_ok=True)
        (build / "rows" / f"{name}.py").write_text((files("codasmith.templates.rows") / f"{name}.py").read_text())
    for each, reference, file, data in operators:
        (build / file).write_text(json.dumps(data, indent=1) + "\n")
        source = (theirs if file == BACKWARD else entry).path / TASK
        (build / reference).write_text(reference_of(source.read_text(), each.reference.__name__))
    doc = task.doc.replace('"""', "'''")
    (build / "__init__.py").write_text((_INIT if back is None else _INIT_BOTH).format(doc=doc, name=task.name))
    (build / module / "__init__.py").write_text(_OLDER.format(identity=identity))
    (build / "metadata.json").write_text(json.dumps(_metadata(build, identity, title), indent=2) + "\n")
    (made / "LICENSE").write_text(distribution("codasmith").read_text("licenses/LICENSE") or "Apache License 2.0\n")
    (made / "README.md").write_text(_readme(entry, task, title, back is not None, bool(used)))


def _spec(build: Path, entry: Entry, task: Task, identity: str) -> dict[str, Any]:
    """What a launch needs besides tensors; the objects are written on the way."""
    objects = []
    for compiled in entry.record.objects:
        file = compiled.file.removesuffix(".xz")
        (build / "objects" / file).write_bytes(entry.library(compiled))
        fields = {n: getattr(compiled, n) for n in ("sha256", "storage", "schedule", "stage")}
        objects.append({"file": file, **fields, "signature": compiled.signature.model_dump(mode="json")})
    first = {o.storage: o.signature for o in reversed(entry.record.objects)}
    program = task if isinstance(task, ProgramTask) else None
    return {
        "id": identity,
        "name": task.name,
        "doc": task.doc,
        "schema": schema(task, task.name),
        "a": task.leading,
        "inputs": list(task.tensors),
        "outputs": {name: tensor.dtype for name, tensor in task.outputs.items()},
        "accumulates": list(task.accumulates),
        "objects": objects,
        "best": {e.storage: [b.model_dump(mode="json") for b in e.best] for e in entry.record.evidence},
        "stages": _stages(program) if program else [],
        "whole": {s: whole(program, part).model_dump(mode="json") for s, part in first.items()} if program else {},
    }


def _stages(task: ProgramTask) -> list[dict[str, Any]]:
    """A program's steps as data. Raises RegistryError for a constant that is neither a number nor a symbol."""
    for step in task.steps:
        for name, value in step.constants:
            if isinstance(value, str) and not value.isidentifier():
                raise RegistryError(
                    f"the stage {step.name} of {task.name} has {name} = {value!r}, and an exported program computes no "
                    "expressions; declare a number or one symbol"
                )
    return [
        {
            **{"kind": s.kind, "name": s.name, "writes": s.writes},
            "reads": (*((s.gemm.a, s.gemm.b) if s.gemm else ()), *s.reads),
            **{"formula": s.formula, "constants": dict(s.constants)},
        }
        for s in task.steps
    ]


def _backward(task: Task) -> tuple[Entry, Task, Any] | None:
    """A program's backward program: its best kernel, its task, and how it is called; None where there is none."""
    found = load(task).gradient if isinstance(task, ProgramTask) else None
    if found is None or found.entry is None:
        return None
    return found.entry, found.task, pair(task, found)  # type: ignore[arg-type]


def _keep(build: Path, entry: Entry, prefix: str) -> None:
    """The entry's record and texts."""
    for name in filter(lambda n: (entry.path / n).exists(), (RECORD, SOURCE, TASK, GRAPH, GRAPHS)):
        target = f"{Path(name).stem}.py.txt" if name.endswith(".py") else name
        shutil.copyfile(entry.path / name, build / f"{prefix}{target}")
    (build / f"{prefix}{RECORD}").write_text(entry.record.dumps())  # with the evidence of all stores


def reference_of(source: str, name: str) -> str:
    """A task file's reference without the task: its imports but Codasmith's, its constants, its functions bare.

    Raises RegistryError where something else of Codasmith is used.
    """
    kept: list[ast.stmt] = []
    for node in syntax_tree(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [n.name for n in node.names]
            if all(m.split(".")[0] not in ("codasmith", "") for m in modules):
                kept.append(node)
        elif isinstance(node, ast.FunctionDef):
            node.decorator_list = []
            kept.append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            kept.append(node)
    text = ast.unparse(ast.Module(kept, []))
    space: dict = {}
    try:
        exec(compile(text, "reference.py", "exec"), space)  # admitted: read and judged by the gate before
        space[name]
    except (NameError, KeyError, ImportError) as error:
        raise RegistryError(
            f"the reference {name} cannot stand alone ({error}); define what it uses in its file"
        ) from None
    return f'"""What the kernel computes, in plain PyTorch."""\n\n{text}\n'


def _metadata(build: Path, identity: str, title: str) -> dict:
    paths = sorted(p for p in build.rglob("*") if p.is_file())
    return {
        "id": identity,
        "name": title,
        "version": 1,
        "license": "Apache-2.0",
        "python-depends": ["tvm-ffi"],
        "python-depends-backends": {"cuda": ["nvidia-cutlass-dsl"]},
        "backend": {"type": "cuda", "archs": ["9.0a"]},
        "digest": {
            "algorithm": "sha256",
            "files": {
                str(p.relative_to(build)): base64.b64encode(hashlib.sha256(p.read_bytes()).digest()).decode()
                for p in paths
            },
        },
    }


def _readme(entry: Entry, task: Task, title: str, both: bool, triton: bool) -> str:
    record = entry.record
    newest = max(record.evidence, key=lambda e: e.date)
    where = ", ".join(f"{k} {v}" for k, v in newest.environment.items())
    return _README.format(
        title=title,
        module=title.replace("-", "_"),
        name=task.name,
        doc=task.doc,
        inputs=", ".join(task.tensors),
        kernel=entry.name,
        author=record.author.name,
        date=newest.date,
        where=where,
        domain=record.domain,
        bound=record.numerics.bound,
        gradient=f"by the backward program, {task.name}_bwd" if both else "the reference's, recomputed",
        triton=" and triton (for the kernels between products)" if triton else "",
    )


_INIT = '''"""{doc}"""

from pathlib import Path

from .operation import Operator
from .reference import {name} as _reference

{name} = Operator(Path(__file__).parent, _reference)

__all__ = ["{name}"]
'''

_INIT_BOTH = '''"""{doc}"""

from pathlib import Path

from .backward import {name}_bwd as _backward
from .operation import Operator
from .reference import {name} as _reference

{name}_bwd = Operator(Path(__file__).parent, _backward, "backward.json")
{name} = Operator(Path(__file__).parent, _reference, twin={name}_bwd)

__all__ = ["{name}", "{name}_bwd"]
'''

_OLDER = '''"""The same as the folder above, for releases of `kernels` that look for the module here."""

import importlib.util
import sys
from pathlib import Path

_module = sys.modules.get("{identity}")
if _module is None:
    _spec = importlib.util.spec_from_file_location("{identity}", Path(__file__).parents[1] / "__init__.py")
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["{identity}"] = _module
    _spec.loader.exec_module(_module)
__all__ = _module.__all__
globals().update({{name: getattr(_module, name) for name in __all__}})
'''

_README = """---
license: apache-2.0
tags: [kernels]
---

# {title}

{doc}

```python
from pathlib import Path
from kernels import get_local_kernel

kernel = get_local_kernel(Path("{title}"))
result = kernel.{name}({inputs})
```

Without `kernels`: put `build/torch-cuda` on `sys.path` and `from {module} import {name}`.
Needs torch, apache-tvm-ffi and nvidia-cutlass-dsl (for its runtime library){triton}, and Python 3.10 or newer.
The kernel runs on an H100 or H200 with a driver of the 580 series or newer; elsewhere, and for inputs outside its
domain, the plain PyTorch reference answers and says so once. A changed object is refused.

- kernel: {kernel}, by {author}
- verified: {date} on {where}
- domain: {domain}
- numerics: {bound}
- gradient: {gradient}

`record.json` holds the evidence, `kernel.py.txt` the epilogue, `task.py.txt` the task, `spec.json` what a launch needs.
"""
