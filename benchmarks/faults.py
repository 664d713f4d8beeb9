"""What is lost, and what is said wrongly, when something is killed or runs out: `python benchmarks/faults.py`.

Injects faults (`injected.py`) into every role at random moments, judges an honest kernel (or, for a fault of the
kernel's own, a bad one) across each, and asserts that no record is lost, that no honest kernel is refused and no bad
one passes, and that the next judgement is well.  One line a fault: what was done, what the gate said, and how long
until it was well again.  Without a GPU, or with --cpu, the roles that need none.

The same command with the same --out goes on where it stopped; --shard 1/4 takes a quarter, and --summary FILE... says
what several files hold.  Ends with 1 if anything was lost or wrong, or was not tried.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from codasmith import gate
from codasmith.agent.errors import UserMistake
from codasmith.evals.jobs import part_of
from codasmith.evals.lines import Line, append, read
from codasmith.gate.machine import environment
from codasmith.gate.pipe import ChildFailed
from codasmith.gate.pipeline import session

sys.path.insert(0, str(Path(__file__).parent))
from injected import Faults, GivenUp, Outcome
from victims import said

GRACE_S = 15.0
"""What a fault under way has, once the time is up, before it is given up."""
ON_CPU = {
    "compile_server": 3,
    "compile_child": 3,
    "coordinator": 2,
    "writer": 4,
    "full_disk_compiling": 1,
    "full_disk_keeping": 1,
}
ON_GPU = {
    **{"runner": 10, "referee": 6, "compile_server": 4, "compile_child": 4, "writer": 4, "full_disk_keeping": 2},
    **{"coordinator": 3, "hang": 1, "illegal": 2, "memory": 2, "full_disk_compiling": 2},
}
"""How many of each, in an order of which every fourth make about as much work."""

Planned = tuple[str, int]
"""A fault's name, and which of its kind."""


def planned(gpu: bool, only: Sequence[str] = (), each: int | None = None, shard: str = "1/1") -> list[Planned]:
    """The faults of a part of the plan. Raises UserMistake for a shard that is none."""
    plan = {n: c for n, c in (ON_GPU if gpu else ON_CPU).items() if not only or n in only}
    part, parts = part_of(shard)
    found = [(name, number) for name, count in plan.items() for number in range(1, (each or count) + 1)]
    return found[part - 1 :: parts]


def kept(files: Sequence[Path]) -> list[Line]:
    """What the files hold, the newest of each fault; a last line that was cut short is passed over.

    Raises SystemExit for a file that cannot be read.
    """
    try:
        lines = [line for line in read(files, "faults") if line.keys() >= {"gpu", "kind", "number"}]
    except UserMistake as error:
        raise SystemExit(str(error)) from None
    return list({(line["gpu"], line["kind"], line["number"]): line for line in lines}.values())


def summary(lines: Sequence[Line], wanted: int, gpu: bool) -> tuple[str, bool]:
    """What was lost or said wrongly, and how long the gate took to be well again; and whether all is well."""
    wrong = [line for line in lines if line["wrong"]]
    slowest = max(lines, key=lambda line: line["well_s"], default=None)
    text = f"{len(lines)} of {wanted} faults, {len(wrong)} with something lost or wrong"
    if slowest:
        text += f"; well again after {slowest['well_s']:.1f} s at most ({slowest['fault']})"
    machines = sorted({line["environment"].get("gpu", "a GPU") for line in lines}) if gpu else ["a CPU"]
    text += f", in {sum(line['seconds'] for line in lines):.0f} s together, on {' and '.join(machines or ['a GPU'])}"
    text += "".join(f"\nWRONG: {line['fault']}: {line['wrong']}" for line in wrong)
    return text, not wrong and len(lines) >= wanted > 0


def run(
    faults: Faults, plan: Sequence[Planned], out: Path | None, seed: int, limit_s: float, machine: dict[str, str]
) -> list[Line]:
    """Inject them one after another; begins none after limit_s, and gives the one under way up GRACE_S later."""
    lines: list[Line] = []
    started = time.monotonic()
    watchdog = threading.Timer(limit_s + GRACE_S, faults.give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        print(f"before any fault: {_well(faults)} in {time.monotonic() - started:.1f} s", flush=True)
        for name, number in plan:
            if time.monotonic() - started > limit_s:
                break
            faults.dice = random.Random(f"{seed} {name} {number}")
            begun = time.monotonic()
            outcome: Outcome = getattr(faults, name)()
            if faults.given_up.is_set():
                break
            about = {"kind": name, "number": number, "gpu": faults.gpu, "seconds": round(time.monotonic() - begun, 2)}
            lines.append({**asdict(outcome), **about, "environment": machine})
            print(f"{len(lines):>3} {outcome}", flush=True)
            if out:
                append(out, lines[-1])
    except GivenUp:
        pass
    finally:
        watchdog.cancel()
    if len(lines) < len(plan):
        print(f"the time is up: {len(plan) - len(lines)} of {len(plan)} were not tried", flush=True)
    return lines


def _well(faults: Faults) -> str:
    """Judge the honest kernel once. Raises SystemExit where it does not pass."""
    if faults.gpu:

        def begin() -> None:
            try:
                _ = session().referee
            except ChildFailed:
                return  # the judgement says so

        threading.Thread(target=begin).start()
    verdict = faults.judge().verdict
    if faults.given_up.is_set():
        raise GivenUp
    if not verdict.ok:
        raise SystemExit(f"the honest kernel is not well here ({said(verdict)}), so nothing can be learnt")
    return said(verdict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="only the roles that need no GPU")
    parser.add_argument("--only", nargs="+", choices=sorted(ON_GPU), help="only these faults")
    parser.add_argument("--each", type=int, help="so many of each; by default 40 in all on a GPU")
    parser.add_argument("--shard", default="1/1", help="a part of them, such as 2/4, the second of four")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=86400.0, help="begin no fault after so many seconds")
    parser.add_argument("--out", type=Path, help="JSON lines, one fault a line; what it holds is not tried again")
    parser.add_argument("--summary", nargs="+", type=Path, metavar="FILE", help="inject nothing; sum up these files")
    options = parser.parse_args()
    gpu = gate.has_gpu() and not options.cpu
    if options.summary:
        gpu = any(line["gpu"] for line in kept(options.summary))
    try:
        plan = planned(gpu, options.only or (), options.each, options.shard)
    except UserMistake as error:
        raise SystemExit(str(error)) from None
    machine = environment() if gpu else {}
    files = options.summary or ([options.out] if options.out and options.out.exists() else [])
    before = [line for line in kept(files) if line["gpu"] == gpu and (line["kind"], line["number"]) in plan]
    done = {(line["kind"], line["number"]) for line in before}
    left = [fault for fault in plan if fault not in done]
    lines: list[Line] = []
    if left and not options.summary:
        random.Random(options.seed).shuffle(left)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="codasmith-faults-") as work:
            lines = run(Faults(Path(work), gpu), left, options.out, options.seed, options.limit_s, machine)
            session().close()
    text, well = summary([*before, *lines], len(plan), gpu)
    print(text, flush=True)
    raise SystemExit(not well)


if __name__ == "__main__":
    main()
