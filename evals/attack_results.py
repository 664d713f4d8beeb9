"""What was decided of attacks, as JSON lines: kept as it is decided, gone on with, and summed up over several files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from .attack_corpus import Attack
from .lines import Line, append, read


def keep(file: Path, outcome: Line, environment: dict[str, str]) -> None:
    """Append an outcome: what `Outcome.data` gives, and the machine it was decided on, empty without a GPU."""
    append(file, {**outcome, "environment": environment})


def decided(files: Iterable[Path], chosen: Sequence[Attack]) -> list[Line]:
    """The newest line of each chosen attack in the files; one about another text of the attack does not count.

    A last line that was cut short is passed over. Raises UserMistake for a file that cannot be read.
    """
    digests = {a.name: a.digest for a in chosen}
    found = {
        line["name"]: line
        for line in read(files, "attacks")
        if isinstance(name := line.get("name"), str) and name in digests and line.get("digest") == digests[name]
    }
    return [found[a.name] for a in chosen if a.name in found]


def summary(lines: Sequence[Line], chosen: int) -> str:
    """How many of those chosen came out as expected, attacks and controls apart; where, and on which machines."""
    right = [line for line in lines if line["as_expected"]]
    controls = sum(line["family"] == "control" for line in right)
    text = f"{len(right)} of {chosen} as expected: {len(right) - controls} attacks and "
    text += f"{controls} control{'s' * (controls != 1)}"
    later = sum(line["outcome"] == "left to a GPU" for line in lines)
    return text + (f"; {later} of them can only be caught on a GPU" if later else "")


def details(lines: Sequence[Line], chosen: Sequence[Attack]) -> str:
    """Where attacks were caught, on which machines, and by name what was not as expected or is missing."""
    stages = Counter(line["stage"] for line in lines if line["outcome"] == "caught")
    said = [f"caught: {', '.join(f'{count} at {stage}' for stage, count in stages.most_common())}"] if stages else []
    harmless = sum(line["outcome"] == "no effect" for line in lines)
    said += [f"without effect, and passed: {harmless}"] if harmless else []
    machines = Counter(_machine(line.get("environment", {})) for line in lines)
    said += [f"{count} on {machine}" for machine, count in machines.most_common()]
    for line in lines:
        if not line["as_expected"]:
            left = ", and it left its mark" * line["marked"]
            said.append(f"UNEXPECTED: {line['name']}: {line['found']}, not {line['expected']}{left}")
    there = {line["name"] for line in lines}
    missing = [a.name for a in chosen if a.name not in there]
    return "\n".join([*said, *([f"not decided: {', '.join(missing)}"] if missing else [])])


def _machine(environment: dict[str, str]) -> str:
    if not environment:
        return "a machine without a GPU"
    versions = ", ".join(f"{what} {environment[what]}" for what in ("driver", "cuda", "torch"))
    return f"{environment['gpu']} ({versions})"
