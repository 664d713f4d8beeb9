"""Runs the corpus of attacks through the gate, and says of each where it was caught.

One file an exploit in `attacks/`, read as text and never imported.  Its docstring says which family of cheats it
belongs to, which tier it attacks, where it should be refused and why; `@MARK@` in it stands for a file that it
would create if it had its way.  Expected is a stage and a finding's code ("read: import"), or "checked": it
passes as the honest kernel that it also is, and its attack has no effect.

`codasmith attacks` runs them, and so does `python -m codasmith.evals.attack_runner [NAME...]`.
"""

from __future__ import annotations

import ast
import difflib
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, cast

from ..gate import CPU_STAGES, has_gpu
from ..gate.pipeline import evaluate, session
from ..gate.verdict import Tier, Verdict
from ..tasks import load_task
from ..templates.schedule import SCHEDULES, Schedule

HARMLESS = "checked"
LIMIT_S = 45.0
"""Wall time of one compilation here: one attack never ends by itself."""


@dataclass(frozen=True)
class Attack:
    """One file of the corpus."""

    name: str
    family: str
    """"A1" to "F5", or "control"."""
    title: str
    task: str
    tier: Tier
    stage: str
    """Where it should be refused; empty where it passes without effect."""
    code: str
    why: str
    text: str

    @property
    def needs_gpu(self) -> bool:
        return bool(self.stage) and self.stage not in CPU_STAGES

    def source(self, mark: Path) -> str:
        return self.text.replace("@MARK@", str(mark))


@dataclass(frozen=True)
class Outcome:
    """What became of one attack."""

    attack: Attack
    verdict: Verdict
    marked: bool
    """Whether it left its mark: something of it ran that should not have, or reached where it should not."""

    @property
    def found(self) -> str:
        finding = self.verdict.finding
        if finding is None:
            return HARMLESS if self.verdict.ok else self.verdict.status
        stage = next(s.stage for s in self.verdict.stages if s.outcome == "failed")
        return f"{stage}: {finding.code}"

    @property
    def expected(self) -> str:
        attack = self.attack
        if not attack.stage or (attack.needs_gpu and self.verdict.status == "checked"):
            return HARMLESS
        return f"{attack.stage}: {attack.code}"

    @property
    def as_expected(self) -> bool:
        return self.found == self.expected and not self.marked

    def data(self) -> dict[str, Any]:
        a = self.attack
        return {
            **{"name": a.name, "family": a.family, "tier": a.tier, "title": a.title, "expected": self.expected},
            **{"found": self.found, "marked": self.marked, "as_expected": self.as_expected},
        }

    def __str__(self) -> str:
        a = self.attack
        said = "has no effect" if not a.stage and self.found == HARMLESS else f"caught at {self.found}"
        if a.needs_gpu and self.verdict.status == "checked":
            said = f"passed the CPU stages; on a GPU it should be caught at {a.stage}"
        if not self.as_expected:
            said = f"UNEXPECTED: {self.found}, not {self.expected}{', and it left its mark' * self.marked}"
        return f"{a.family:<8} {a.name:<34} {said}"


def attacks(names: Iterable[str] = ()) -> list[Attack]:
    """The corpus in order of names, or those named. Raises ValueError for a damaged file or an unknown name."""
    folder = resources.files("codasmith.evals") / "attacks"
    found = {
        file.name.removesuffix(".py"): _parse(file.name.removesuffix(".py"), file.read_text(encoding="utf-8"))
        for file in sorted(folder.iterdir(), key=lambda f: f.name)
        if file.name.endswith(".py")
    }
    for name in names:
        if name not in found:
            near = ", ".join(difflib.get_close_matches(name, found, 3, 0.3)) or "without a name, all are run"
            raise ValueError(f"there is no attack called {name}; near it: {near}")
    return [found[name] for name in names or found]


def _parse(name: str, text: str) -> Attack:
    first, *rest = (ast.get_docstring(ast.parse(text)) or "").split("\n")
    fields = dict(line.split(": ", 1) for line in rest if ": " in line)
    family, _, title = first.partition(". ")
    missing = {"task", "tier", "expect", "why"} - set(fields)
    if missing or not title:
        raise ValueError(f"the attack {name} has no {', '.join(sorted(missing)) or 'title'} in its docstring")
    stage, _, code = fields["expect"].partition(": ")
    if stage == HARMLESS:
        stage = ""
    elif not code:
        raise ValueError(f"the attack {name} expects {fields['expect']!r}; write a stage and a code, or {HARMLESS}")
    tier = cast(Tier, fields["tier"])
    return Attack(name, family, title, fields["task"], tier, stage, code, fields["why"], text)


def run(
    attack: Attack, folder: Path, *, cpu_only: bool = True, schedules: Sequence[Schedule] = SCHEDULES[:1]
) -> Outcome:
    """Put one attack through the gate. folder: where its mark would be, empty."""
    mark = folder / attack.name
    compiler = session().compiler
    before, compiler.limit_s = compiler.limit_s, LIMIT_S
    try:
        evaluation = evaluate(
            load_task(attack.task),
            attack.source(mark),
            tier=attack.tier,
            cpu_only=cpu_only,
            schedules=schedules,
            compile_baseline=False,
        )
    finally:
        compiler.limit_s = before
    return Outcome(attack, evaluation.verdict, mark.exists())


def run_all(
    chosen: Sequence[Attack],
    *,
    cpu_only: bool = True,
    say: Callable[[str], None] = print,
    limit_s: float | None = None,
) -> list[Outcome]:
    """Put attacks through the gate one after another, a line each; begins none after limit_s seconds."""
    outcomes: list[Outcome] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="codasmith-attacks-") as folder:
        for attack in chosen:
            if limit_s is not None and time.monotonic() - started > limit_s:
                say(f"the time is up: {len(chosen) - len(outcomes)} of {len(chosen)} were not begun")
                break
            outcomes.append(run(attack, Path(folder), cpu_only=cpu_only))
            say(str(outcomes[-1]))
    return outcomes


def summary(outcomes: Sequence[Outcome], chosen: int) -> str:
    """How many of those chosen came out as expected, attacks and controls apart."""
    right = [o for o in outcomes if o.as_expected]
    controls = sum(o.attack.family == "control" for o in right)
    later = sum(o.attack.needs_gpu and o.verdict.status == "checked" for o in outcomes)
    text = f"{len(right)} of {chosen} as expected: {len(right) - controls} attacks and "
    text += f"{controls} control{'s' * (controls != 1)}"
    return text + (f"; {later} of them can only be caught on a GPU" if later else "")


def main() -> None:
    try:
        chosen = attacks(sys.argv[1:])
    except ValueError as error:
        raise SystemExit(str(error)) from None
    outcomes = run_all(chosen, cpu_only=not has_gpu())
    print(summary(outcomes, len(chosen)))
    raise SystemExit(not all(o.as_expected for o in outcomes))


if __name__ == "__main__":
    main()
