"""One operator's computation: decide whether a kernel may take these inputs, then launch it or the reference.

Decisions are remembered by shapes, strides, dtypes, devices, alignment and who wants a gradient, so that a
repeated call costs a lookup and a launch.  Nothing here waits for the GPU.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property

import torch

from ..gate.verdict import key_of
from ..tasks import ProgramTask, Task
from ..tasks.tensor import DTYPES
from ..templates import ABI
from ..templates import launch as template
from ..templates.signature import Signature
from . import cache as libraries
from . import choice, recheck, unfused
from .assembly import Assembled, joined, whole
from .errors import OutsideDomain, RegistryError, warn
from .plan import Fresh, Kernel, Plan, returned
from .rebuild import possible, rebuilt
from .record import CompiledObject, Evidence, Measure
from .sizes import Value, check_devices, check_dtypes, overlap, sizes_of
from .store import Entry
from .twin import Twin
from .watched import ALIGNED, guard, never, watched

REMEMBERED = 4096  # decisions kept; a server that sees ever new shapes must not grow without bound
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


@dataclass
class Runner:
    """The state behind one registered operator."""

    task: Task
    entries: tuple[Entry, ...] = ()
    """Those that answer this very task, best first."""
    strict: bool = False
    batch_invariant: bool = False
    missing: str = ""
    """Why there are no entries, where there are none."""
    _plans: dict[tuple, Plan] = field(default_factory=dict)
    twin: Twin | None = None
    """What computes the gradient, where that is a program too."""
    _objects: dict[str, Kernel] = field(default_factory=dict)
    _kernels: dict[tuple[str, torch.device], Kernel | str] = field(default_factory=dict)
    last: Plan = field(default_factory=lambda: Plan(None))
    """The plan of the latest call that went straight to a kernel."""
    _warned: bool = False
    _tried: bool = False
    """Whether a kernel was compiled anew, or could not be."""

    def __call__(self, *values: Value) -> torch.Tensor | Fresh | None:
        """The new outputs, in order; the only one bare, None for none. Accumulated outputs are written in place."""
        plan = self.plan(values)
        reason = plan.reason if plan.launch is None else self._shared(values)
        if plan.launch is None or reason:
            if not plan.preferred:
                self._refuse(reason)
            fresh = unfused.run(self.task, values)
        else:
            fresh = plan.launch(values)
            for place in self._written:  # autograd must notice that what it may have saved is another value now
                if not values[place].is_inference():
                    torch.autograd.graph.increment_version(values[place])
        return returned(fresh)

    def _shared(self, values: tuple[Value, ...]) -> str:
        """Why a kernel may not write these in place: memory that it reads too. "" if it may; a kind does not say."""
        for place in self._written:
            for other in self._places:
                if other != place and overlap(values[place], values[other]):
                    one, two = (list(self.task.tensors)[i] for i in (place, other))
                    return f"{one}, which is written in place, shares memory with {two}; give it memory of its own"
        return ""

    def plan(self, values: tuple[Value, ...]) -> Plan:
        """Kernel or reference. Raises InputError for inputs that do not fit the task at all."""
        key = self._key(values)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= REMEMBERED:
                self._plans.clear()
            plan = self._plans[key] = self._decide(values)
        return plan

    def remembered(self, values: tuple[Value, ...]) -> Plan | None:
        """The plan of a kind of inputs seen before, if it is to launch a kernel that only returns new tensors, and
        nothing watches the call. values: as many as the task has."""
        last = self.last  # once: another thread may set it
        if last.guard(*values):
            return last
        if self.task.accumulates or watched():
            return None
        for i in self._scalars:
            if type(values[i]) is not float and type(values[i]) is not int:
                return None
        tensors = [values[i] for i in self._places]
        for tensor in tensors:
            if type(tensor) not in PLAIN or tensor.layout is not torch.strided or tensor.is_nested:
                return None
        plan = self._plans.get(self._key(values))
        if plan is None or plan.launch is None:
            return None
        if plan.guard is never and all(tensor.data_ptr() % ALIGNED == 0 for tensor in tensors):
            plan.guard = guard(values, self._places)
        self.last = plan
        return plan

    def _key(self, values: tuple[Value, ...]) -> tuple:
        if self._scalars:
            values = tuple([values[i] for i in self._places])
        # A list, not a generator: half the time.  The mode stands here for the guard, which depends on it.
        kinds = [
            (v.shape, v.stride(), v.dtype, v.get_device(), v.data_ptr() % ALIGNED, v.requires_grad) for v in values
        ]
        return (torch.is_inference_mode_enabled(), *kinds)

    @cached_property
    def _places(self) -> tuple[int, ...]:
        """Where the tensors stand among the inputs."""
        return tuple(i for i, t in enumerate(self.task.tensors.values()) if t.dimensions)

    @cached_property
    def _written(self) -> tuple[int, ...]:
        return tuple(i for i, name in enumerate(self.task.tensors) if name in self.task.accumulates)

    @cached_property
    def _scalars(self) -> tuple[int, ...]:
        return tuple(i for i, t in enumerate(self.task.tensors.values()) if not t.dimensions)

    def _decide(self, values: tuple[Value, ...]) -> Plan:
        sizes = sizes_of(self.task, values)
        check_dtypes(self.task, values)
        check_devices(self.task, values)
        tensors = {n: v for n, v in zip(self.task.tensors, values, strict=True) if isinstance(v, torch.Tensor)}
        if not self.entries:
            return Plan(None, reason=self.missing)
        a = tensors[self.task.leading]
        reason = _no_hopper(a.device)
        if reason:
            return Plan(None, reason=reason)
        storage = self._storage(values)
        entries = self.answering(storage, sizes)
        if not entries:
            known = " and ".join(sorted({s for e in self.entries for s in e.record.storages}))
            return Plan(
                None, reason=f"{self.task.leading} is {storage}, and the kernel was verified for {known}; convert it"
            )
        slower = self._slower(entries[0][1], sizes)
        if choice.EAGER in slower:
            reason = f"the reference is faster here, the kernel was measured at {slower[choice.EAGER]} times its speed"
            return Plan(None, reason=reason, preferred=True)
        inputs = dict(zip(self.task.tensors, values, strict=True))
        for entry, objects in self._candidates(entries, sizes):
            reason = template.refuse(self._signature(objects), inputs)
            if reason:
                continue
            kernel = self._kernel(entry, objects, a.device)
            if isinstance(kernel, str):
                reason = kernel
                continue
            differentiable = any(t.requires_grad for t in tensors.values())
            schedules = ", ".join(key_of(stage, o.schedule) for stage, o in objects.items())
            return Plan(
                kernel.bound(inputs), differentiable=differentiable, chosen=f"{entry.name} with schedule {schedules}"
            )
        return Plan(None, reason=reason or "the entry holds no compiled object; verify the kernel again")

    def answering(self, storage: str, sizes: dict[str, int]) -> list[tuple[Entry, Evidence]]:
        """The entries that were verified for a storage dtype, with their evidence for it, best for it first: those of
        the closed tier, whose code no author wrote, before the others.

        Those come last that were slower than a baseline at these very sizes; not so where one must do for all sizes.
        """
        found = [(e, seen) for e in self.entries if (seen := e.record.of(storage))]

        def rank(pair: tuple[Entry, Evidence]) -> tuple[bool, int, float]:
            entry, seen = pair
            return entry.record.tier != "closed", len(self._slower(seen, sizes)), seen.tax or float("inf")

        return sorted(found, key=rank)

    def _slower(self, evidence: Evidence, sizes: dict[str, int]) -> dict[str, Measure]:
        """Which baselines are faster than the kernel here, where one of them may run in its place."""
        return {} if self.strict or self.batch_invariant else choice.faster(evidence, sizes)

    def traced(self, values: tuple[Value, ...]) -> str:
        """Why torch.compile had better see the reference than this operator: it was measured to be faster. "" if not.

        values: fake tensors will do.  Sizes that are not known while tracing are those of no record.
        """
        sizes = sizes_of(self.task, values)
        if self.task.accumulates or not all(type(size) is int for size in sizes.values()):
            return ""
        entries = self.answering(self._storage(values), sizes)
        found = self._slower(entries[0][1], sizes).get(choice.COMPILED) if entries else None
        return f"that is faster here, the kernel was measured at {found} times its speed" if found else ""

    def _storage(self, values: tuple[Value, ...]) -> str:
        dtype = values[list(self.task.tensors).index(self.task.leading)].dtype
        return next((s for s, d in DTYPES.items() if d == dtype), str(dtype))

    def _candidates(
        self, entries: list[tuple[Entry, Evidence]], sizes: dict[str, int]
    ) -> list[tuple[Entry, dict[str, CompiledObject]]]:
        """Entries with an object for each stage, the likely fastest first; for a program, one choice an entry."""
        found = []
        for entry, seen in entries[:1] if self.batch_invariant else entries:
            by_stage = {
                stage: choice.pinned(seen, stage) if self.batch_invariant else choice.by_shape(seen, sizes, stage)
                for stage in self.task.parts
            }
            found += [(entry, dict(zip(by_stage, row, strict=True))) for row in zip(*by_stage.values(), strict=False)]
        return found

    def _signature(self, objects: dict[str, CompiledObject]) -> Signature:
        first = next(iter(objects.values())).signature
        return whole(self.task, first) if isinstance(self.task, ProgramTask) else first

    def _kernel(self, entry: Entry, objects: dict[str, CompiledObject], device: torch.device) -> Kernel | str:
        """The loaded kernel, a program's put together, or why it cannot be used on this device."""
        compiled = joined(objects) if isinstance(self.task, ProgramTask) else objects[""]
        found = self._kernels.get((compiled.sha256, device))
        if found is None:
            try:
                found = self._together({stage: self._load(entry, o) for stage, o in objects.items()})
                found = recheck.quarantined(found, self.task, entry, compiled, device) or found
                refused = False
            except (RegistryError, OSError, ImportError, AttributeError, RuntimeError) as error:
                found = f"the compiled object {compiled.file} cannot be loaded: {str(error).splitlines()[0]}"
                refused = isinstance(error, RegistryError)  # changed bytes are not mended
            if isinstance(found, str) and not refused:
                found = self._anew(entry, objects, device, found) or found
            self._kernels[compiled.sha256, device] = found
        return found

    def _together(self, kernels: dict[str, Kernel]) -> Kernel:
        return Assembled(self.task, kernels) if isinstance(self.task, ProgramTask) else kernels[""]

    def _anew(self, entry: Entry, objects: dict[str, CompiledObject], device: torch.device, why: str) -> Kernel | None:
        """The kernel compiled on this machine, once for an operator, if it answers a workload of the record."""
        if self._tried or not possible(entry):
            return None
        self._tried = True
        begun = time.monotonic()
        try:
            with ThreadPoolExecutor(len(objects)) as pool:
                made = list(pool.map(lambda o: rebuilt(entry, self.task, o), objects.values()))
            kernel = self._together({o.stage: template.Kernel(path, o.signature) for o, path in made})
            new = joined({o.stage: o for o, _ in made}) if isinstance(self.task, ProgramTask) else made[0][0]
            if recheck.quarantined(kernel, self.task, entry, new, device, always=True):
                return None
        except (RegistryError, OSError, ImportError, AttributeError, RuntimeError):
            return None  # the first reason is the one to tell
        seconds = time.monotonic() - begun
        warn(f"{why}; compiled anew in {seconds:.1f} s and checked")
        return kernel

    def _load(self, entry: Entry, compiled: CompiledObject) -> Kernel:
        if compiled.sha256 not in self._objects:
            if compiled.signature.abi != ABI:
                raise RegistryError(f"it was compiled for template ABI {compiled.signature.abi}, and this is {ABI}")
            self._objects[compiled.sha256] = template.Kernel(libraries.unpacked(entry, compiled), compiled.signature)
        return self._objects[compiled.sha256]

    def _refuse(self, reason: str) -> None:
        """Raise where the reference may not stand in; otherwise say once that it does."""
        if self.strict:
            raise OutsideDomain(f"{self.task.name}: {reason}")
        if self.batch_invariant:
            raise OutsideDomain(f"{self.task.name}: {reason} (the reference promises no batch invariance)")
        if not self._warned:
            self._warned = True
            warn(f"{self.task.name} runs its unfused reference: {reason}")


def _no_hopper(device: torch.device) -> str | None:
    """Why no kernel runs on this device, if none does."""
    if device.type != "cuda":
        return f"the tensors are on {device}, and the kernels run on a Hopper GPU (H100, H200); move them there"
    major, minor = _capability(device.index)
    if (major, minor) != (9, 0):
        return f"{device} has compute capability {major}.{minor}, and the kernels need 9.0 (H100, H200)"
    return None


@cache
def _capability(index: int) -> tuple[int, int]:
    return torch.cuda.get_device_capability(index)
