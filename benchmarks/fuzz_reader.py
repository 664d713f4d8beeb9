"""Mutated candidates into the reader: `python benchmarks/fuzz_reader.py`; 1,000 by default.

Starts from the kernels by hand and the attacks, damages each by bytes, tokens and syntax-tree nodes, and puts what
comes out through the gate's read stage.  It may answer with a graph or a finding; it must not raise, take longer than
--slow-s, execute anything (each source carries payloads that would leave a mark, and an audit hook watches imports,
files and processes), or differ when asked again.  Prints what came out and ends with 1 at the first fault.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from codasmith import verified_kernels
from codasmith.evals import mutate
from codasmith.evals.attack_corpus import attacks
from codasmith.gate.read import read_stage
from codasmith.tasks import catalogue

HAND_WRITTEN = Path(verified_kernels.__file__).parent / "hand_written"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow-s", type=float, default=5.0)
    options = parser.parse_args()
    tasks = catalogue()
    seeds = [(n, (HAND_WRITTEN / f"{n}.py").read_text()) for n in tasks if (HAND_WRITTEN / f"{n}.py").exists()]
    seeds += [(a.task, a.text) for a in attacks() if a.tier == "closed" and a.task in tasks]
    for name, text in seeds:  # whatever the reader imports at first use
        read_stage(tasks[name], text, "closed")
    dice = random.Random(options.seed)
    codes: Counter[str] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder, mutate.watched() as watch:
        mark = Path(folder) / "mark"
        for number in range(options.count):
            name, text = dice.choice(seeds)
            source = mutate.mutated(text.replace("@MARK@", str(mark)), dice, str(mark))
            started = time.perf_counter()
            try:
                watch.on = True
                result, _ = read_stage(tasks[name], source, "closed")
            except BaseException as error:
                watch.on = False
                print(source)
                raise SystemExit(f"{number}: the reader raised {type(error).__name__}: {error}") from error
            watch.on = False
            spent = time.perf_counter() - started
            slowest = max(slowest, spent)
            if spent > options.slow_s or mark.exists() or watch.seen:
                print(source)
                raise SystemExit(f"{number}: {spent:.1f} s, mark {mark.exists()}, events {watch.seen[:3]}")
            codes[result.finding.code if result.finding else "a graph"] += 1
    most = ", ".join(f"{code} {count}" for code, count in codes.most_common(8))
    print(f"{options.count} mutated sources: none raised, none ran, the slowest took {slowest:.2f} s ({most})")
    print(f"Python {sys.version.split()[0]}, seed {options.seed}")


if __name__ == "__main__":
    main()
