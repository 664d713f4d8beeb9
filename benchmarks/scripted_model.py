"""A model whose skill is known, to see whether the evals measure it.

By the hash of its name, a task is solved at once (SURE), solved after a first answer that is 1 % off (CORRECTED), or
never (LOST).  Right answers are the epilogues that ship.  With two attempts, pass@1 must come out as the share of
tasks that are not LOST, and the attempts to each kernel must follow.

    codasmith eval --model "command:python benchmarks/scripted_model.py" --budget 2 --samples 1
    python benchmarks/scripted_model.py TASK ...      # what is expected of each
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

HAND_WRITTEN = Path(__file__).resolve().parent.parent / "verified_kernels" / "hand_written"
SURE, CORRECTED, LOST = "solved at once", "solved after a mistake", "never solved"


def skill(task: str) -> str:
    return (SURE, SURE, CORRECTED, LOST)[hashlib.sha256(task.encode()).digest()[0] % 4]


def right(task: str) -> str | None:
    files = (HAND_WRITTEN / f"{task}.py", HAND_WRITTEN / "programs" / f"{task}.py")
    return next((file.read_text(encoding="utf-8") for file in files if file.is_file()), None)


def wrong(source: str, attempt: int) -> str:
    """The first output 1 % off, or a little more at each further attempt, so that no answer is a repeat."""
    return re.sub(r'(return \{"\w+": )', rf"\g<1>1.01{attempt} * ", source, count=1)


def answer(prompt: str) -> str:
    asked = prompt.partition("\n===== user =====\n")[2]  # before it stand the rules, with an example's task among them
    task = re.search(r"^# Task: (\w+)", asked, re.M)
    attempt = prompt.count("\n===== assistant =====\n") + 1
    source = right(task[1]) if task else None
    if task is None or source is None:
        return "I know no such task."
    known = skill(task[1])
    good = known == SURE or (known == CORRECTED and attempt > 1)
    return f"Attempt {attempt}.\n\n```python\n{source if good else wrong(source, attempt)}```\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="without any, answers the prompt on standard input")
    tasks: list[str] = parser.parse_args().tasks
    if not tasks:
        print(answer(sys.stdin.read()))
    for task in tasks:
        print(f"{task:<32} {skill(task) if right(task) else 'unknown'}")


if __name__ == "__main__":
    main()
