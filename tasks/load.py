"""Finding tasks: by name in the catalogue, or in a file anywhere on disk.

A task file is its author's own code and is executed.  Whatever is wrong with it is one sentence (TaskError).
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import linecache
import os
import pkgutil
import sys
import traceback
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from .errors import TaskError
from .inputs import draw
from .oracle import check_fp8, oracle, unfused
from .program_task import ProgramTask
from .scaled import SUFFIX, scaled, why_not
from .task import Task

# Importing a folder binds its name in the parent package, so it comes before the function of the same name.
_PACKAGE = importlib.import_module(f"{__package__}.catalogue")
_PROGRAMS = importlib.import_module(f"{__package__}.programs")


@cache
def catalogue() -> dict[str, Task]:
    """The project's own tasks of one product by name: each module of tasks/catalogue holds one."""
    return _found(_PACKAGE)


@cache
def program_tasks() -> dict[str, ProgramTask]:
    """The project's own tasks of several stages by name: each module of tasks/programs holds one."""
    return {name: task for name, task in _found(_PROGRAMS).items() if isinstance(task, ProgramTask)}


def shipped() -> dict[str, Task]:
    """All of the project's own tasks by name."""
    return {**catalogue(), **program_tasks()}


def shipped_task(name: str) -> Task | None:
    """One of the project's own tasks, only its module imported where that bears its name; None if there is none."""
    for package in (_PACKAGE, _PROGRAMS):
        full = f"{package.__name__}.{name}"
        if name.isidentifier() and importlib.util.find_spec(full) is not None:
            for task in _tasks_of(importlib.import_module(full)):
                if task.name == name:
                    return task
    return _scaled(name) or shipped().get(name)


@cache
def _scaled(name: str) -> Task | None:
    """NAME_fp8 of one of the project's own tasks; None if there is none."""
    base = plain_task(name)
    return scaled(base) if base and not why_not(base) else None


def plain_task(name: str) -> Task | None:
    """NAME, given NAME_fp8, where it is one of the project's own tasks."""
    return shipped_task(name.removesuffix(SUFFIX)) if name.endswith(SUFFIX) else None


def _found(package: ModuleType) -> dict[str, Task]:
    found = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        found.update({t.name: t for t in _tasks_of(module)})
    return dict(sorted(found.items()))


def load_task(name_or_path: str | os.PathLike) -> Task:
    """A task of the catalogue by name, or the task of a file: "my_task.py", or "my_tasks.py:one_of_them".

    NAME_fp8 is NAME with operands in fp8, in the catalogue and in a file ("my_task.py:NAME_fp8"); see `scaled`.

    Raises TaskError, in one sentence, for whatever is wrong with the name, the file or the task.
    """
    text = os.fspath(name_or_path)
    stem, colon, wanted = text.rpartition(":")
    if colon and stem.endswith(".py"):
        text = stem
    else:
        wanted = ""
    if not _is_path(text):
        return _from_catalogue(text)
    path = Path(text).expanduser().resolve()
    found = _tasks_of(_execute(path))
    task = _choose(path, found, wanted)
    validate(task)
    return task


def validate(task: Task) -> None:
    """Run the reference once on small ragged sizes, in float64 and in the storage dtype, in fp8 where it takes that.

    Raises TaskError if it fails, answers with other names, shapes or dtypes than declared, or is not finite.
    """
    workload = task.correctness_workloads()[0]
    inputs = draw(task, workload)
    for kind, answer in (("float64", oracle(task, inputs)), ("bfloat16", unfused(task, inputs))):
        for name, value in answer.items():
            if not torch.isfinite(value).all():
                raise TaskError(
                    f"task {task.name!r}: the reference gives NaN or infinity in {name} on ordinary {kind} inputs "
                    f"({workload.label}); correct it, or bound its inputs with low= and high="
                )
    if task.fp8:
        check_fp8(task, draw(task, task.correctness_workloads("fp8")[0]))


def _is_path(text: str) -> bool:
    return text.endswith(".py") or os.sep in text or text.startswith("~") or Path(text).is_file()


def _from_catalogue(name: str) -> Task:
    if found := shipped_task(name):
        return found
    if base := plain_task(name):
        return scaled(base)  # which says why there is none
    near = difflib.get_close_matches(name, shipped(), n=2)
    near = [f"{name}.py, which is here"] if Path(f"{name}.py").is_file() else near
    hint = f"did you mean {' or '.join(near)}?" if near else "its names: codasmith tasks list"
    raise TaskError(f"there is no task {name!r} in the catalogue; name one, or a path that ends in .py ({hint})")


def _execute(path: Path) -> ModuleType:
    if path.is_dir():
        raise TaskError(f"{path} is a folder; name the .py file in it that holds the task")
    if path.suffix != ".py":
        raise TaskError(f"{path} is not a Python file; a task is a file whose name ends in .py")
    if not path.exists():
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")], n=1)
        hint = f"did you mean {path.parent / near[0]}?" if near else "check the path"
        raise TaskError(f"there is no file {path}; {hint}")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise TaskError(f"{path} cannot be read ({error.strerror}); check its permissions") from None
    # A private name, so that a file called torch.py or tasks.py hides nothing, and an edited file is a new module.
    name = f"_codasmith_task_{path.stem}_{hashlib.sha256(bytes(path) + source).hexdigest()[:12]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    linecache.checkcache(str(path))
    sys.modules[name] = module
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        del sys.modules[name]
        raise TaskError(f"{error.filename}, line {error.lineno}: {error.msg}; correct the syntax") from None
    except TaskError as error:
        del sys.modules[name]
        raise TaskError(f"{path.name}{_line(path, error)}: {error}") from None
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        message = (str(error).strip().splitlines() or [""])[0].rstrip(".")
        raise TaskError(
            f"{path.name} does not import{_line(path, error)}: {type(error).__name__}{': ' * bool(message)}{message}; "
            "correct it and try again"
        ) from error
    return module


def _line(path: Path, error: BaseException) -> str:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def _tasks_of(module: ModuleType) -> list[Task]:
    """The tasks that the module defines itself, not those it imports."""
    own = (v for v in vars(module).values() if isinstance(v, Task) and v.reference.__module__ == module.__name__)
    return list({id(t): t for t in own}.values())


def _choose(path: Path, found: list[Task], wanted: str) -> Task:
    names = [t.name for t in found]
    if not found:
        raise TaskError(f"{path.name} defines no task; put @task(...) on its reference function")
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise TaskError(f"{path.name} defines two tasks called {twice!r}; give each its own name")
    if wanted:
        for task in found:
            if task.name == wanted:
                return task
        for task in found:
            if task.name + SUFFIX == wanted:
                return scaled(task)
        raise TaskError(f"{path.name} defines no task {wanted!r}; it defines {', '.join(names)}")
    if len(found) > 1:
        raise TaskError(
            f"{path.name} defines {len(found)} tasks ({', '.join(names)}); say which, such as {path.name}:{names[0]}"
        )
    return found[0]
