"""The record: the evidence kept with an admitted kernel.

Frozen data with a JSON round-trip.  A seal, the sha256 of everything else in it, makes a changed byte
visible; it guards against accidents, not against someone who can rewrite the store.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..tasks import Workload
from ..templates.signature import Signature
from .errors import RegistryError

Tier = Literal["closed", "cutedsl"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Author(_Frozen):
    """Who wrote the kernel."""

    name: str
    """"hand-written", "builtin:tracer", or a model's name such as "anthropic:NAME"."""
    prompt_digest: str = ""
    """sha256 of the prompt that it answered."""
    journal: str = ""
    """Name of the campaign's journal."""


class Numerics(_Frozen):
    """What is promised of the values."""

    bound: str
    """The tolerance that every gated output met."""
    deterministic: bool | None = None
    """Whether repeated runs gave the same bits; None if that was not looked at."""
    accumulation: str = ""
    """Precision and order of the sum over K and of the reductions."""


class Measure(_Frozen):
    """A measured ratio or time, with its interval where it is known."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


class OutputError(_Frozen):
    """Error against float64 of one output: the kernel's and the unfused path's own."""

    schedule: str
    output: str
    kernel_max: float
    kernel_rms: float
    unfused_max: float
    unfused_rms: float
    bound_max: float
    """What was allowed."""
    bound_rms: float


class Timing(_Frozen):
    """One schedule on one workload."""

    schedule: str
    milliseconds: Measure | None = None
    tax: Measure | None = None
    """Over the bare GEMM of the same shape."""
    over_eager: Measure | None = None
    """Speed-up over the unfused reference."""
    over_compile: Measure | None = None
    """Speed-up over torch.compile of the reference."""
    sol: Measure | None = None
    """Roofline time over measured time."""
    bare: str = ""
    """The bare GEMM of the tax: the fastest of those timed."""
    others: dict[str, float] = Field(default_factory=dict)
    """Milliseconds of what it was timed against, by name."""


class WorkloadEvidence(_Frozen):
    """What was seen on one workload."""

    workload: Workload
    errors: tuple[OutputError, ...] = ()
    timings: tuple[Timing, ...] = ()


class Best(_Frozen):
    """The schedule that won on one shape."""

    sizes: dict[str, int]
    schedule: str
    stage: str = ""
    """Which product of a program it is for."""


class CompiledObject(_Frozen):
    """One gated schedule, compiled."""

    file: str
    schedule: str
    storage: str
    stage: str = ""
    """Which product of a program it is for."""
    packed_sha256: str
    """Of the compressed file in the store."""
    sha256: str
    """Of the library inside."""
    signature: Signature


class Evidence(_Frozen):
    """What one evaluation on one GPU showed, for one storage dtype."""

    storage: str
    date: str
    """ISO 8601, UTC."""
    environment: dict[str, str]
    """GPU, driver, and versions of CUDA, torch, quack and CuTeDSL."""
    objects: tuple[CompiledObject, ...]
    workloads: tuple[WorkloadEvidence, ...] = ()
    best: tuple[Best, ...] = ()
    tax: float | None = None
    """Geometric mean over the timed workloads."""
    stages: dict[str, str] = Field(default_factory=dict)
    """Each gate stage's outcome, with its note."""


class Record(_Frozen):
    """Everything that is known of an admitted kernel."""

    task: str
    task_digest: str
    digest: str
    """Of the entry: source, task and template ABI."""
    candidate_digest: str
    abi: str
    tier: Tier
    author: Author
    numerics: Numerics
    domain: str
    """Where the kernel may be used, in words."""
    files: dict[str, str] = Field(default_factory=dict)
    """sha256 of the text files beside the record."""
    evidence: tuple[Evidence, ...]
    """One for each storage dtype."""

    @property
    def storages(self) -> tuple[str, ...]:
        return tuple(e.storage for e in self.evidence)

    @property
    def objects(self) -> tuple[CompiledObject, ...]:
        return tuple(o for e in self.evidence for o in e.objects)

    @property
    def tax(self) -> float | None:
        """The smallest geometric-mean tax of any storage dtype."""
        return min((e.tax for e in self.evidence if e.tax is not None), default=None)

    def of(self, storage: str) -> Evidence | None:
        return next((e for e in self.evidence if e.storage == storage), None)

    def joined(self, newer: Record) -> Record:
        """This record with the newer one's evidence, which replaces that of the same storage dtype."""
        kept = tuple(e for e in self.evidence if e.storage not in newer.storages)
        evidence = tuple(sorted((*kept, *newer.evidence), key=lambda e: e.storage))
        said = {} if kept else {"numerics": newer.numerics, "domain": newer.domain}
        return self.model_copy(update={"evidence": evidence, **said})

    def newest(self, other: Record) -> Record:
        """This record with what the other one has for a storage dtype that is missing here, or older."""
        own = {e.storage: e for e in self.evidence}
        newer = tuple(e for e in other.evidence if e.storage not in own or e.date > own[e.storage].date)
        return self.joined(other.model_copy(update={"evidence": newer})) if newer else self

    def dumps(self) -> str:
        """Sealed JSON text."""
        body = self.model_dump(mode="json")
        return json.dumps({"seal": _seal(body), **body}, indent=1, allow_nan=True) + "\n"

    @staticmethod
    def loads(text: str, where: str) -> Record:
        """Parse and check the seal. Raises RegistryError naming `where`."""
        try:
            body = json.loads(text)
            seal = body.pop("seal")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RegistryError(f"{where} is not a record ({_short(error)}); verify the kernel again") from None
        if seal != _seal(body):
            raise RegistryError(f"{where} was changed after it was written; verify the kernel again")
        try:
            return Record.model_validate(body)
        except ValidationError as error:
            raise RegistryError(
                f"{where} is a record of another version of this package ({_short(error)}); verify the kernel again"
            ) from None


def entry_digest(source: str, task_digest: str, abi: str) -> str:
    """The entry's name: sha256 over the candidate's source, the task and the template's ABI."""
    return hashlib.sha256(json.dumps([source, task_digest, abi]).encode()).hexdigest()


def _seal(body: dict) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:120]
