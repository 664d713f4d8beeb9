"""Runs the corpus of attacks through the gate, and says of each where it was caught.

The stages without a GPU run side by side, and what passes them goes on to the GPU one at a time.

`codasmith attacks` does this, and so does `python -m codasmith.evals.attack_runner [NAME...]`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..gate import has_gpu
from ..gate.pipe import ChildFailed
from ..gate.pipeline import bare_kernels, evaluate, session
from ..gate.verdict import Verdict
from ..tasks import load_task
from ..templates.schedule import SCHEDULES, Schedule
from .attack_corpus import HARMLESS, Attack, attacks
from .attack_results import summary

LIMIT_S = 90.0
"""Wall time of one compilation here: one attack never ends by itself, and is begun first."""
GRACE_S = 15.0
"""What attacks under way have, once the time is up, before they are given up."""
TIMED = 1
"""How many of its task's shapes an attack is timed on."""


@dataclass(frozen=True)
class Outcome:
    """What became of one attack."""

    attack: Attack
    verdict: Verdict
    marked: bool
    """Whether it left its mark: something of it ran that should not have, or reached where it should not."""
    seconds: float = 0.0

    @property
    def found(self) -> str:
        finding = self.verdict.finding
        if finding is None:
            return HARMLESS if self.verdict.ok else self.verdict.status
        stage = next(s.stage for s in self.verdict.stages if s.outcome == "failed")
        return f"{stage}: {finding.code}"

    @property
    def later(self) -> bool:
        """Whether only a GPU can catch it, and there was none."""
        return self.attack.needs_gpu and self.verdict.status == "checked"

    @property
    def expected(self) -> str:
        attack = self.attack
        return HARMLESS if not attack.stage or self.later else f"{attack.stage}: {attack.code}"

    @property
    def as_expected(self) -> bool:
        return self.found == self.expected and not self.marked

    @property
    def outcome(self) -> str:
        """ "caught", "no effect", "left to a GPU" or "unexpected"."""
        if not self.as_expected:
            return "unexpected"
        if self.later:
            return "left to a GPU"
        return "caught" if self.attack.stage else "no effect"

    def data(self) -> dict[str, Any]:
        a = self.attack
        stage, _, code = self.found.partition(": ")
        return {
            **{"name": a.name, "family": a.family, "tier": a.tier, "title": a.title, "expected": self.expected},
            **{"outcome": self.outcome, "found": self.found, "stage": stage if code else "", "code": code},
            **{"marked": self.marked, "as_expected": self.as_expected, "seconds": round(self.seconds, 2)},
            **{"note": self.verdict.note, "digest": a.digest},
        }

    def __str__(self) -> str:
        a = self.attack
        said = {
            "caught": f"caught at {self.found}",
            "no effect": "has no effect",
            "left to a GPU": f"passed the CPU stages; on a GPU it should be caught at {a.stage}",
            "unexpected": f"UNEXPECTED: {self.found}, not {self.expected}{', and it left its mark' * self.marked}",
        }
        return f"{a.family:<8} {a.name:<34} {said[self.outcome]}"


def run(
    attack: Attack, folder: Path, *, cpu_only: bool = True, schedules: Sequence[Schedule] = SCHEDULES[:1]
) -> Outcome:
    """Put one attack through the gate. folder: where its mark would be, empty."""
    with _patience():
        return _through(attack, folder, cpu_only, schedules)


def run_all(
    chosen: Sequence[Attack],
    *,
    cpu_only: bool = True,
    say: Callable[[str], None] = print,
    keep: Callable[[Outcome], None] = lambda outcome: None,
    limit_s: float | None = None,
) -> list[Outcome]:
    """Put attacks through the gate, a line each as it is decided, and `keep` called with it.

    limit_s: none is begun after so many seconds, and what is not decided GRACE_S later is given up.
    """
    outcomes: list[Outcome] = []
    started, given_up = time.monotonic(), threading.Event()

    def time_is_up() -> bool:
        return limit_s is not None and time.monotonic() - started > limit_s

    def give_up() -> None:
        given_up.set()
        session().compiler.limit_s = 1.0
        session().close()  # whoever waits for the compile server or the referee hears that it has ended

    with (
        _watchdog(limit_s, give_up),
        tempfile.TemporaryDirectory(prefix="codasmith-attacks-") as folder,
        _patience(),
        ThreadPoolExecutor(min(16, len(os.sched_getaffinity(0))) + 2) as pool,
    ):
        ready = None if cpu_only else pool.submit(_prepare, chosen)

        def check(attack: Attack) -> Outcome | None:
            return None if time_is_up() else _through(attack, Path(folder), True)

        def judged(checked: Outcome | None) -> Outcome | None:
            if checked is None or ready is None or checked.verdict.status != "checked":
                return checked
            if time_is_up():
                return None
            ready.result()
            outcome = _through(checked.attack, Path(folder), False)
            return replace(outcome, seconds=outcome.seconds + checked.seconds)

        endless_first = sorted(chosen, key=lambda attack: attack.code != "time-limit")
        for future in as_completed([pool.submit(check, attack) for attack in endless_first]):
            outcome = judged(future.result())
            if outcome is not None and not given_up.is_set():
                outcomes.append(outcome)
                keep(outcome)
                say(str(outcome))
    if len(outcomes) < len(chosen):
        say(f"the time is up: {len(chosen) - len(outcomes)} of {len(chosen)} were not decided")
    return outcomes


@contextlib.contextmanager
def _watchdog(limit_s: float | None, give_up: Callable[[], None]) -> Iterator[None]:
    """Has attacks given up that are under way too long; not once this is left, however that happens."""
    timer = threading.Timer((limit_s or 0) + GRACE_S, give_up)
    timer.daemon = True
    if limit_s is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _through(attack: Attack, folder: Path, cpu_only: bool, schedules: Sequence[Schedule] = SCHEDULES[:1]) -> Outcome:
    mark, started = folder / attack.name, time.monotonic()
    task = load_task(attack.task)
    evaluation = evaluate(
        task,
        attack.source(mark),
        tier=attack.tier,
        cpu_only=cpu_only,
        schedules=schedules,
        workloads=task.workloads("bf16")[:TIMED],
        compile_baseline=False,
    )
    return Outcome(attack, evaluation.verdict, mark.exists(), time.monotonic() - started)


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    compiler = session().compiler
    before, compiler.limit_s = compiler.limit_s, LIMIT_S
    try:
        yield
    finally:
        compiler.limit_s = before


def _prepare(chosen: Sequence[Attack]) -> None:
    """Compile what every attack is measured against, and start the referee, while attacks are read."""
    for name in dict.fromkeys(a.task for a in chosen if not a.stage or a.needs_gpu):
        for source, signature in bare_kernels(load_task(name), "bf16"):
            session().compiler.submit(source, signature)
    with contextlib.suppress(ChildFailed):  # judging says so, of the attack that it is about
        _ = session().referee


def main() -> None:
    try:
        chosen = attacks(sys.argv[1:])
    except ValueError as error:
        raise SystemExit(str(error)) from None
    outcomes = run_all(chosen, cpu_only=not has_gpu())
    print(summary([o.data() for o in outcomes], len(chosen)))
    raise SystemExit(not all(o.as_expected for o in outcomes))


if __name__ == "__main__":
    main()
