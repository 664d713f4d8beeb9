"""What the built-in models solve without help, by a run of the evals: `python benchmarks/solved_alone.py RUN ...`.

RUN is the folder of a run or of a part of one, which asked `builtin:tracer`, `builtin:search` and `hand-written`.  For
each level: the share of the set's tasks that the better of the two built-in models solves, and the share in which its
tax is within 3 % of the hand-written kernel's at the same shapes.  A sample that was not finished counts as not
solved.  A file that --out wrote can be named in the place of the folders.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from codasmith.agent.errors import UserMistake
from codasmith.evals import archive, lines, rows
from codasmith.evals.evalset import read_set
from codasmith.evals.run_folder import RunFolder

sys.path.insert(0, str(Path(__file__).parent))
from out_file import out_file

WHO = {"tracer": "builtin:tracer", "search": "builtin:search", "hand": "hand-written"}
NEAR = 1.03
"""Of the hand-written kernel's tax: as good as it."""
LEVELS = (1, 2, 3)
"""The tracer knows tasks of one product only."""

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--out", type=out_file, help="JSON lines, one task a line")
    options = parser.parse_args()
    files = [path for path in options.runs if path.is_file()]
    try:
        found = [row for row in lines.read(files, "built-in models") if "level" in row]
        if folders := [RunFolder(path) for path in options.runs if path not in files]:
            found += _tasks(folders)
    except UserMistake as error:
        raise SystemExit(str(error)) from None
    if not found:
        raise SystemExit(f"{' '.join(map(str, files))} holds no task's row; name what --out wrote, or a run's folder")
    if options.out:
        options.out.write_text("".join(json.dumps(row) + "\n" for row in found))
    for level in LEVELS:
        print(_told(f"level {level}", [r for r in found if r["level"] == level]))
    print(_told("levels 2 and 3", [r for r in found if r["level"] > 1]).splitlines()[0])
    print(_search(found))


def _tasks(folders: list[RunFolder]) -> list[Row]:
    """One row a task of the set, whether or not the run came to it."""
    sets = {folder.spec().set_digest: folder.spec().set for folder in folders}
    if len(sets) != 1:
        raise SystemExit(f"these are parts of {len(sets)} different sets; name the parts of one run")
    given = {(row.model, row.task): (row, folder.path) for folder in folders for row in folder.rows()}
    wanted = [entry for entry in read_set(next(iter(sets.values())))[0].tasks if entry.level in LEVELS]
    made = []
    for entry in sorted(wanted, key=lambda e: (e.level, e.name)):
        row: Row = {"task": entry.name, "level": entry.level}
        samples = {who: given[model, entry.name] for who, model in WHO.items() if (model, entry.name) in given}
        for who, (sample, folder) in samples.items():
            row |= {who: sample.status, f"{who}_tax": sample.tax, f"{who}_interval": _interval(sample, folder)}
            row[f"{who}_schedules"] = [timed.schedule for timed in sample.timed]
        if "search" in samples:
            search = samples["search"][0]
            row |= {"taxes": [a.tax for a in search.attempts], "best": search.best, "ended": search.ended}
        if "hand" in samples:  # of two answers that give one kernel, the gate judges one
            hand = samples["hand"][0].timed
            row["same_kernel"] = any(samples[who][0].timed == hand for who in ("tracer", "search") if who in samples)
        made.append(row)
    return made


def _interval(sample: rows.Row, folder: Path) -> list[float] | None:
    """Of the best attempt's tax at the first shape; None where the run's journals are not beside it."""
    for event in archive.events_of(folder, sample.journal):
        if event["event"] == "verdict" and event["attempt"] == sample.best and event["verdict"]["timing"]:
            tax = event["verdict"]["timing"]["workloads"][0]["tax"]
            return [tax["low"], tax["high"]]
    return None


def _alone(row: Row) -> float | None:
    """The least tax of the built-in models; None where none of them is known to solve the task."""
    return min((row[f"{who}_tax"] for who in ("tracer", "search") if row.get(who) == "passed"), default=None)


def _near(row: Row) -> bool:
    ours, theirs = _alone(row), row.get("hand_tax")
    return ours is not None and theirs is not None and ours <= NEAR * theirs


def _told(name: str, found: list[Row]) -> str:
    if not found:
        return f"{name}: no task"

    def share(count: int) -> str:
        return f"{count} of {len(found)} ({100 * count / len(found):.0f} %)"

    solved = [r for r in found if _alone(r) is not None]
    near = [r for r in solved if _near(r)]
    same = sum(r["same_kernel"] for r in near)
    text = f"{name}: solved {share(len(solved))}; within 3 % of the hand-written kernel's tax {share(len(near))}, "
    text += f"{same} of them with that very kernel"
    for row in found:
        missing = [WHO[who] for who in WHO if who not in row]
        if missing:
            text += f"\n  {row['task']}: not finished by {', '.join(missing)}"
        if _alone(row) is None and len(missing) < len(WHO) - 1:
            text += f"\n  {row['task']}: not solved"
        if row in solved and not _near(row):
            text += f"\n  {row['task']}: tax {_alone(row):.3f}, hand-written {row.get('hand_tax') or float('nan'):.3f}"
    return text


def _search(found: list[Row]) -> str:
    """What the rewrites gained over the tracer's answer, which is the search's first attempt."""
    rewritten = [r for r in found if len(r.get("taxes", ())) > 1]
    better = [r for r in rewritten if r["best"] > 1]
    text = f"search: finished {sum('search' in r for r in found)} tasks, proposed a rewrite in {len(rewritten)}, and "
    text += f"it was faster in {len(better)}"
    far = [r for r in found if r.get("taxes") and r["taxes"][0] and r.get("hand_tax")]
    far = [r for r in far if r["taxes"][0] > NEAR * r["hand_tax"]]
    text += f"; of {len(far)} tasks with a first answer more than 3 % above the hand-written kernel's tax it brought "
    text += f"{sum(_near(r) for r in far)} within them"
    for row in better:
        text += f"\n  {row['task']}: {row['taxes'][0]:.3f} -> {row['search_tax']:.3f}"
        if (first := row.get("tracer_interval")) and (then := row.get("search_interval")):
            text += f", intervals {'apart' if then[1] < first[0] else 'overlap'}"
    return text


if __name__ == "__main__":
    main()
