"""Export: one admitted kernel as a package of its own, in the layout that Hugging Face's `kernels` loads.

    NAME/README.md, LICENSE
    NAME/build/torch-cuda/__init__.py, metadata.json, ... , NAME/__init__.py

The package needs torch, apache-tvm-ffi and CuTeDSL's runtime library (nvidia-cutlass-dsl); neither Codasmith nor a
compiler.  Where no kernel may run it answers by its reference, and says so once.
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

from ..primitives.syntax import syntax_tree
from ..tasks import ProgramTask, Task
from .errors import RegistryError
from .load import find, resolve, stale
from .operator import schema
from .store import GRAPH, RECORD, SOURCE, TASK, Entry

VARIANT = "torch-cuda"
VENDORED = {
    "templates": ("launch.py", "bound.py", "link.py"),
    "verified_kernels.exported": ("operator.py", "signature.py"),
}


def export(name: str | Entry, folder: Path) -> Path:
    """Write the kernel's package into a new folder inside `folder`, and return that.

    name: a task, or "task/digest". Raises UnknownKernel, or RegistryError where the kernel is stale or damaged, is no
    single product, or the folder cannot be written or is there already.
    """
    entry = name if isinstance(name, Entry) else find(name)
    task, _ = resolve(entry.record.task)
    why = stale(entry, task)
    if why:
        raise RegistryError(f"{why}; it is not exported")
    if isinstance(task, ProgramTask):
        raise RegistryError(f"{entry.name} is a program, and only kernels of one product can be exported")
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
    for name in filter(lambda n: (entry.path / n).exists(), (RECORD, SOURCE, TASK, GRAPH)):
        shutil.copyfile(entry.path / name, build / (f"{Path(name).stem}.py.txt" if name.endswith(".py") else name))
    objects = []
    for compiled in entry.record.objects:
        file = compiled.file.removesuffix(".xz")
        (build / "objects" / file).write_bytes(entry.library(compiled))
        fields = {"file": file, "sha256": compiled.sha256, "storage": compiled.storage, "schedule": compiled.schedule}
        objects.append({**fields, "signature": compiled.signature.model_dump(mode="json")})
    spec = {
        "id": identity,
        "name": task.name,
        "doc": task.doc,
        "schema": schema(task, task.name),
        "a": task.gemm.a,
        "inputs": list(task.tensors),
        "outputs": {name: tensor.dtype for name, tensor in task.outputs.items()},
        "accumulates": list(task.accumulates),
        "objects": objects,
        "best": {e.storage: [b.model_dump(mode="json") for b in e.best] for e in entry.record.evidence},
    }
    (build / "spec.json").write_text(json.dumps(spec, indent=1) + "\n")
    (build / "reference.py").write_text(reference_of((entry.path / TASK).read_text(), task.reference.__name__))
    (build / "__init__.py").write_text(_INIT.format(doc=task.doc.replace('"""', "'''"), name=task.name))
    (build / module / "__init__.py").write_text(_OLDER.format(identity=identity))
    (build / "metadata.json").write_text(json.dumps(_metadata(build, identity, title), indent=2) + "\n")
    (made / "LICENSE").write_text(distribution("codasmith").read_text("licenses/LICENSE") or "Apache License 2.0\n")
    (made / "README.md").write_text(_readme(entry, task, title))


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


def _readme(entry: Entry, task: Task, title: str) -> str:
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
    )


_INIT = '''"""{doc}"""

from pathlib import Path

from .operator import Operator
from .reference import {name} as _reference

{name} = Operator(Path(__file__).parent, _reference)

__all__ = ["{name}"]
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
Needs torch, apache-tvm-ffi and nvidia-cutlass-dsl (for its runtime library), and Python 3.10 or newer. The kernel
runs on an H100 or H200 with a driver of the 580 series or newer; elsewhere, and for inputs outside its domain, the
plain PyTorch reference answers and says so once. A changed object is refused.

- kernel: {kernel}, by {author}
- verified: {date} on {where}
- domain: {domain}
- numerics: {bound}

`record.json` holds the evidence, `kernel.py.txt` the epilogue, `task.py.txt` the task, `spec.json` what a launch needs.
"""
