"""Put hand-written kernels through the gate and keep those that pass: `python benchmarks/admit.py TASK ...`.

One call builds, checks and times; with --compile-only it stops where a GPU is needed, so that a machine
without one can compile ahead (objects are kept by content under CODASMITH_CACHE).
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from codasmith import gate, verified_kernels
from codasmith.evals.hand_written import source_for
from codasmith.evals.judging import remember
from codasmith.gate.pipeline import Evaluation
from codasmith.gate.verdict import Tier, Verdict
from codasmith.tasks import Task, TaskError, catalogue, load_task

sys.path.insert(0, str(Path(__file__).parent))
from out_file import out_file

HAND_WRITTEN = Path(verified_kernels.__file__).parent / "hand_written"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "tasks", nargs="*", help="names of the catalogue, TASK:cutedsl for the open tier; all by default"
    )
    parser.add_argument("--storage", nargs="+", default=[], choices=["bf16", "fp16", "fp8"])
    parser.add_argument(
        "--source", type=Path, default=HAND_WRITTEN, help="folder of candidates, TASK.py and cutedsl/TASK.py"
    )
    parser.add_argument("--store", type=Path, help="where to keep what passes; nothing is kept without it")
    parser.add_argument("--out", type=out_file, help="JSON lines, one verdict a line")
    parser.add_argument("--author", default="hand-written")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--no-compile-baseline", action="store_true", help="do not measure torch.compile")
    parser.add_argument("--limit-s", type=float, default=1e9, help="start no further task after so many seconds")
    parser.add_argument(
        "--judged", type=Path, help="folder of a run of the evals that shall take these verdicts for equal candidates"
    )
    parser.add_argument(
        "--sanitize",
        action="store_true",
        help="at the end, compute-sanitizer over all that passed; then what passes it is kept",
    )
    parser.add_argument("--races", action="store_true", help="with --sanitize: racecheck too")
    options = parser.parse_args()
    enough = threading.Event()
    ahead = threading.Thread(target=_compile_ahead, args=(options, enough), daemon=True)
    if not options.compile_only:
        ahead.start()
    try:
        _judge(options)
    finally:
        enough.set()
        if ahead.is_alive():
            ahead.join()  # a compiler that Python's end cuts off aborts the process


def _judge(options: argparse.Namespace) -> None:
    """One candidate after another; what passed is kept at the end where it is sanitized first."""
    started = time.monotonic()
    held: list[Evaluation] = []
    for name in options.tasks or sorted(catalogue()):
        task, tier, source = _candidate(name, options)
        for storage in options.storage or [task.usual_storage]:
            if time.monotonic() - started > options.limit_s:
                print(f"{name} {storage}: not started, the time is up", flush=True)
                continue
            begun = time.monotonic()
            evaluation = gate.evaluate(
                task,
                source,
                tier=tier,
                storage=storage,
                cpu_only=options.compile_only,
                rounds=options.rounds,
                compile_baseline=not options.no_compile_baseline,
            )
            _show(f"{name} {storage}", evaluation.verdict, time.monotonic() - begun)
            finding = evaluation.verdict.finding
            if finding and finding.code == "environment":
                raise SystemExit("nothing can be judged here until that is mended")
            if options.judged and evaluation.verdict.status == "passed":
                remember(options.judged, evaluation.verdict, source, storage)
            if options.sanitize and evaluation.verdict.status == "passed":
                held.append(evaluation)
            else:
                _finish(evaluation, options)
    if held:
        begun = time.monotonic()
        left = min(600.0, max(options.limit_s - (begun - started), 120.0))
        checked = gate.sanitize(
            held, races=options.races, limit_s=left, progress=lambda _, line: print(line, flush=True)
        )
        for evaluation in checked:
            _finish(evaluation, options)
        outcomes = Counter(e.verdict.stages[-1].outcome for e in checked)
        print(f"sanitizer: {dict(outcomes)} in {time.monotonic() - begun:.0f} s", flush=True)


def _show(name: str, verdict: Verdict, seconds: float) -> None:
    stages = " ".join(f"{s.stage} {s.seconds:.1f}s" for s in verdict.stages if s.outcome != "skipped")
    print(f"{name}: {verdict.status} in {seconds:.1f} s ({stages})", flush=True)
    for line in filter(None, [verdict.note, str(verdict.finding or "")]):
        print(f"  {line}", flush=True)
    for row in verdict.timing.get("workloads", []):
        print("  " + _line(row), flush=True)


def _finish(evaluation: Evaluation, options: argparse.Namespace) -> None:
    """Keep what passed, and write the verdict down."""
    verdict = evaluation.verdict
    if options.store and verdict.status == "passed":
        try:
            entry = verified_kernels.admit(evaluation, evaluation.task, author=options.author, store=options.store)
        except (ValueError, OSError) as error:  # one that cannot be kept must not cost the others
            print(f"{verdict.task} was not kept: {error}", flush=True)
        else:
            verdict = verdict.model_copy(update={"status": "admitted", "note": f"kept as {entry.name}"})
            print(f"kept as {entry.name}", flush=True)
    if options.out:
        with options.out.open("a") as stream:
            stream.write(json.dumps(verdict.model_dump(mode="json")) + "\n")


def _compile_ahead(options: argparse.Namespace, enough: threading.Event) -> None:
    """Compile what comes next while the GPU is busy, until it is enough; objects are found again by content."""
    for name in options.tasks or sorted(catalogue()):
        task, tier, source = _candidate(name, options)
        for storage in options.storage or [task.usual_storage]:
            if enough.is_set():
                return
            gate.check(task, source, tier=tier, storage=storage)


def _candidate(name: str, options: argparse.Namespace) -> tuple[Task, Tier, str]:
    name, _, tier = name.partition(":")
    tier = tier or "closed"
    try:
        task, source = load_task(name), source_for(name, tier, options.source)
    except TaskError as error:
        raise SystemExit(str(error)) from None
    except OSError as error:
        raise SystemExit(f"the candidate of {name} cannot be read: {error.filename}: {error.strerror}") from None
    if source is None:
        raise SystemExit(f"{name} has no candidate for the tier {tier} in {options.source}; write it or name --source")
    return task, tier, source


def _line(row: dict) -> str:
    sizes = " ".join(f"{k}{v}" for k, v in row["workload"]["sizes"].items())
    text = f"{sizes}: {row['milliseconds']['kernel']:.3f} ms {row['schedule']}"
    text += f", tax {row['tax']['value']:.3f} over {row['bare']}"
    text += f", {row['over_eager']['value']:.2f}x eager"
    if "over_compile" in row:
        text += f", {row['over_compile']['value']:.2f}x torch.compile"
    return text + f", SoL {row['sol']:.2f}, {row['answer']}"


if __name__ == "__main__":
    main()
