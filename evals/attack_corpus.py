"""The corpus of attacks: one file an exploit in `attacks/`, read as text and never imported.

Its docstring says which family of cheats it belongs to, which tier it attacks, where it should be refused and why;
`@MARK@` in it stands for a file that it would create if it had its way.  Expected is a stage and a finding's code
("read: import"), or "checked": it passes as the honest kernel that it also is, and its attack has no effect.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import cast

from ..gate import CPU_STAGES
from ..gate.verdict import Tier

HARMLESS = "checked"


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

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def source(self, mark: Path) -> str:
        return self.text.replace("@MARK@", str(mark))


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
