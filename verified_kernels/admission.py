"""Admission: from the gate's evaluation to an entry of the registry, or a refusal that says why."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..gate.verdict import Verdict
from ..tasks import Task, text_of
from ..templates import ABI
from .errors import AdmissionError
from .evidence import best_of, numerics_of, workloads_of
from .record import Author, CompiledObject, Evidence, Record, entry_digest
from .store import GRAPH, GRAPHS, SOURCE, TASK, Entry, now, user_store, write_entry

if TYPE_CHECKING:
    from ..gate import Evaluation

NEEDED = ("numerics", "guards", "timing")
"""Stages that a verdict must have passed on a GPU, whatever its status says."""


def admit(
    evaluation: Evaluation, task: Task, *, author: Author | Mapping[str, str] | str, store: Path | None = None
) -> Entry:
    """Keep a kernel that passed the gate on a real GPU, and return its entry.

    author: "hand-written", "builtin:tracer", or a model with the digest of its prompt and its journal.
    store: the folder to keep it in; the user's own by default.
    An entry of the same source, task and ABI gains the evidence for this storage dtype.
    Raises AdmissionError for a verdict that does not admit, RegistryError where the store cannot be written.
    """
    refusal = why_not(evaluation, task)
    if refusal:
        raise AdmissionError(f"{task.name} is not admitted: {refusal}")
    verdict = evaluation.verdict
    texts = {SOURCE: evaluation.source, TASK: _task_file(task)}
    if evaluation.graph is not None:
        texts[GRAPH] = evaluation.graph.model_dump_json(indent=1) + "\n"
    elif evaluation.graphs:
        graphs = {stage: graph.model_dump(mode="json") for stage, graph in evaluation.graphs.items()}
        texts[GRAPHS] = json.dumps(graphs, indent=1) + "\n"
    objects, packed = _pack(evaluation)
    evidence = Evidence(
        storage=evaluation.storage,
        date=now(),
        environment=verdict.environment,
        objects=objects,
        workloads=workloads_of(verdict),
        best=best_of(verdict),
        tax=verdict.tax,
        stages={s.stage: f"{s.outcome}{': ' * bool(s.note)}{s.note}" for s in verdict.stages},
    )
    record = Record(
        task=task.name,
        task_digest=task.digest,
        digest=entry_digest(evaluation.source, task.digest, ABI),
        candidate_digest=verdict.candidate_digest,
        abi=ABI,
        tier=evaluation.tier,
        author=_author(author),
        numerics=numerics_of(verdict),
        domain=domain_of(task),
        files={name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()},
        evidence=(evidence,),
    )
    return write_entry(store or user_store(), record, texts, packed)


def why_not(evaluation: Evaluation, task: Task) -> str:
    """Why the evaluation may not enter the registry; empty if it may."""
    verdict: Verdict = evaluation.verdict
    if verdict.status != "passed":
        found = f" ({verdict.finding})" if verdict.finding else ""
        return f'its verdict is "{verdict.status}"{found}, and only "passed" from a real GPU admits'
    if not verdict.environment.get("gpu"):
        return "its verdict names no GPU; run the gate where there is one"
    outcomes: dict[str, str] = {s.stage: s.outcome for s in verdict.stages}
    for stage in NEEDED:
        if outcomes.get(stage) != "passed":
            return f"its verdict has no passed {stage} stage; run the whole gate"
    if "failed" in outcomes.values():
        return f"its {next(s for s, o in outcomes.items() if o == 'failed')} stage failed, though its status is passed"
    if verdict.task != task.name or verdict.task_digest != task.digest:
        return f"its verdict is for another version of the task, {verdict.task} {verdict.task_digest[:12]}"
    if not task.name.isidentifier():
        return f"the task's name {task.name!r} is not a Python name; rename it, as the operator is called so"
    if not evaluation.objects:
        return "it has no compiled object"
    bare = set(task.parts) - {key.rpartition(".")[0] for key in evaluation.objects}
    if bare:
        return f"its stage {sorted(bare)[0]} has no compiled object"
    for schedule in evaluation.objects:
        if schedule not in evaluation.signatures:
            return f"its object for {schedule} has no signature"
        if evaluation.signatures[schedule].abi != ABI:
            found = evaluation.signatures[schedule].abi
            return f"its object for {schedule} has template ABI {found}, and this is {ABI}; compile again"
    return ""


def _pack(evaluation: Evaluation) -> tuple[tuple[CompiledObject, ...], dict[str, bytes]]:
    objects, packed = [], {}
    for key, path in evaluation.objects.items():
        stage, _, schedule = key.rpartition(".")
        try:
            library = Path(path).read_bytes()
        except OSError as error:
            raise AdmissionError(f"the compiled object {path} cannot be read ({error.strerror})") from None
        data = lzma.compress(library, preset=9)
        digest = hashlib.sha256(data).hexdigest()
        # The content's digest in the name: a new object never takes the place of one that a reader may have open.
        file = f"{key}-{evaluation.storage}-{digest[:8]}.so.xz"
        packed[file] = data
        objects.append(
            CompiledObject(
                file=file,
                schedule=schedule,
                storage=evaluation.storage,
                stage=stage,
                packed_sha256=digest,
                sha256=hashlib.sha256(library).hexdigest(),
                signature=evaluation.signatures[key],
            )
        )
    return tuple(objects), packed


def domain_of(task: Task) -> str:
    """Where the kernel may be used, in words."""
    inputs = "; ".join(f"{name} {tensor}" for name, tensor in task.tensors.items())
    products = ", ".join(str(part.gemm) for part in task.parts.values())
    return (
        f"{products} with {inputs}; contiguous tensors on one Hopper GPU (compute capability 9.0), rows of matrices "
        "in multiples of 16 bytes"
    )


def _task_file(task: Task) -> str:
    try:
        return text_of(task)
    except OSError as error:
        raise AdmissionError(f"the task's file {task.path} cannot be read ({error.strerror})") from None


def _author(author: Author | Mapping[str, Any] | str) -> Author:
    if isinstance(author, str):
        return Author(name=author)
    return author if isinstance(author, Author) else Author(**author)
