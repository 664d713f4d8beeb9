"""Held-out tasks from a seed: ordinary task files, each the plain-PyTorch form of a random composition.

The same seed, count and difficulty give the same files on every machine.  A draft is taken if the task is sound
(`hygiene`), its own graph passes the gate's reader and interpreter, the template can be generated from it, and it is
neither a public task nor one of the set already, names and constants aside.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ..agent.errors import UserMistake, cannot_write
from ..gate.frame import frame_of
from ..gate.interpret import interpret_stage
from ..primitives import Graph, read, to_source
from ..tasks import Task, TaskError, catalogue, load_task
from ..templates.errors import TemplateError
from ..templates.generate import generate as generate_kernel
from ..templates.schedule import SCHEDULES
from .compose import DIFFICULTIES, Draft, compose
from .evalset import MANIFEST, Entry, EvalSet
from .hygiene import problems, signature
from .torch_source import torch_lines

TRIES = 60
"""Drafts for one task before giving up; about one in two is taken."""

_WORKLOADS = {
    "element": [(4096, 4096, 4096), (8192, 8192, 8192), (16384, 6144, 4096)],
    "pair": [(4096, 2048, 4096), (8192, 4096, 8192), (8192, 14336, 4096)],
    "packed": [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 14336, 4096)],
}
"""M, then N (element) or F, then K."""


@dataclass(frozen=True)
class Generated:
    """One task that was taken."""

    name: str
    text: str
    """The task file."""
    graph: Graph
    """An epilogue that answers it; not written beside the task."""
    task: Task


def generate(
    seed: int, count: int, difficulty: int | None, folder: Path, *, tell: Callable[[str], None] = lambda line: None
) -> EvalSet:
    """Write a set: `count` task files and a set.json into an empty folder, and return the set.

    difficulty: 1 to 4, see `compose`; None takes the four in turn. tell: told of each task that is written.
    Raises UserMistake for what cannot be meant.
    """
    if count < 1:
        raise UserMistake(f"--n {count} asks for no task; give 1 or more")
    if difficulty not in (None, *DIFFICULTIES):
        raise UserMistake(f"--difficulty {difficulty} is not known; give {DIFFICULTIES[0]} to {DIFFICULTIES[-1]}")
    if folder.is_dir() and any(folder.iterdir()):
        raise UserMistake(f"the folder {folder} is not empty; name a new one with --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(f"the folder {folder}", error, "name another one with --out") from None
    entries: list[Entry] = []
    for made in drafts(seed, count, difficulty):
        (folder / f"{made.name}.py").write_text(made.text, encoding="utf-8")
        tell(f"{len(entries) + 1} of {count}: {made.name}")
        entry = {"name": made.name, "digest": made.task.digest, "level": made.task.level, "family": "generated"}
        entries.append(Entry.model_validate({**entry, "file": f"{made.name}.py"}))
    spec = EvalSet(
        name=f"held-out-{seed}" + (f"-difficulty-{difficulty}" if difficulty else ""),
        version=1,
        split="held-out",
        note="Random compositions of primitives; no one has published a solution, and every solution can be generated.",
        made_with={"seed": seed, "count": count, "difficulty": difficulty or 0},
        tasks=tuple(entries),
    )
    (folder / MANIFEST).write_text(spec.model_dump_json(indent=1, exclude_none=True) + "\n", encoding="utf-8")
    return spec


def drafts(
    seed: int, count: int, difficulty: int | None = None, *, rejected: Callable[[str], None] | None = None
) -> Iterator[Generated]:
    """The tasks of a set in turn. rejected: told why each other draft was not taken."""
    rng = random.Random(f"codasmith/{seed}/{difficulty}")
    seen = public_signatures()
    work = Path(tempfile.mkdtemp(prefix="codasmith-generate-"))
    try:
        for number in range(count):
            name = f"held_out_{seed}_{number:03d}"
            for _ in range(TRIES):
                draft = compose(rng, difficulty or DIFFICULTIES[number % len(DIFFICULTIES)])
                text = task_file(draft, name)
                reason, task = _refusal(draft, name, text, seen, work)
                if task is not None and not reason:
                    seen.add(signature(draft.graph))
                    yield Generated(name, text, draft.graph, task)
                    break
                if rejected:
                    rejected(reason)
            else:
                raise UserMistake(
                    f"no sound task number {number} was found in {TRIES} drafts of seed {seed}; ask for fewer tasks, "
                    "or for a higher difficulty"
                )
    finally:
        shutil.rmtree(work, ignore_errors=True)


def public_signatures() -> set[str]:
    """What the catalogue's tasks ask for, as far as the hand-written epilogues say."""
    folder = resources.files("codasmith.verified_kernels.hand_written")
    found = set()
    for name, task in catalogue().items():
        file = folder.joinpath(f"{name}.py")
        if file.is_file():
            found.add(signature(read(file.read_text(encoding="utf-8"), list(task.operands.values()))))
    return found


def task_file(draft: Draft, name: str) -> str:
    """The text of the task file of a draft."""
    narrow = {k for k, declared in draft.tensors.items() if '"f32"' not in declared and '"i64"' not in declared}
    narrow -= {k for k, declared in draft.tensors.items() if declared.startswith('Tensor("",')}
    helpers, lines = torch_lines(draft.graph, draft.gemm, narrow=narrow, halves=draft.halves)
    body = "\n".join(lines + helpers)
    imports = ["import math\n"] if "math." in body else []
    imports += ["import torch"] if "torch." in body else []
    imports += ["from codasmith.tasks import Tensor, task"]
    imports += ["from torch.nn import functional"] if "functional." in body else []
    tensors = "".join(f"    {k}={v},\n" for k, v in draft.tensors.items())
    outputs = ", ".join(f'"{k}": {v}' for k, v in draft.outputs.items())
    sizes = _WORKLOADS[draft.mode]
    workloads = "".join(f'        {{"M": {m}, "{draft.width}": {n}, "K": {k}}},\n' for m, n, k in sizes)
    above = "".join(f"{helper}\n\n\n" for helper in helpers)
    return (
        '"""A generated task: a random composition of primitives around one product."""\n\n'
        + "\n".join(imports)
        + f'\n\n\n{above}@task(\n    gemm="{draft.gemm}",\n    level={draft.level},\n{tensors}'
        + f"    out={{{outputs}}},\n    workloads=[\n{workloads}    ],\n)\n"
        + f"def {name}({', '.join(draft.tensors)}):\n"
        + f'    """The outputs {", ".join(draft.outputs)} of {draft.gemm}, as the code says."""\n'
        + "".join(f"    {line}\n" for line in lines)
    )


def _refusal(draft: Draft, name: str, text: str, seen: set[str], work: Path) -> tuple[str, Task | None]:
    """Why a draft is not taken ("" if it is), and its task where it has one."""
    if not draft.graph.uses_accumulator:
        return "the product does not matter", None
    if signature(draft.graph) in seen:
        return "the same expression as a known task", None
    path = work / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    try:
        task = load_task(path)
        generate_kernel(draft.graph, frame_of(task, "bf16"), SCHEDULES[0])
    except TaskError as error:
        return str(error), None
    except TemplateError as error:
        return f"the template has no way to run it: {error}", None
    if read(to_source(draft.graph, name), list(task.operands.values())).digest != draft.graph.digest:
        return "its source does not read back", None
    stage = interpret_stage(task, draft.graph)
    if stage.finding:
        return f"its reference is another function: {stage.finding}", None
    found = problems(task, draft.graph)
    return (found[0] if found else ""), task
