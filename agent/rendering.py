"""Templates that lie in a package, and text of others made fit to stand in them. Without torch: pages come quickly."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

import jinja2


def render(template: str, **values: Any) -> str:
    """A template of prompts/, filled in."""
    return environment("prompts").get_template(template).render(**values).strip() + "\n"


@cache
def environment(folder: str, *, escape: bool = False, package: str = __package__) -> jinja2.Environment:
    """The templates of a folder of a package. escape: for pages, where text must not become markup."""
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: packaged(f"{folder}/{name}", package)),
        undefined=jinja2.StrictUndefined,
        autoescape=escape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def packaged(path: str, package: str = __package__) -> str:
    """A text file of a package."""
    return resources.files(package).joinpath(path).read_text(encoding="utf-8")


def fence(text: str, label: str = "text") -> str:
    """The text as a fenced block that nothing inside it can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    marks = "`" * max(4, longest + 1)
    return f"{marks}{label}\n{text.rstrip()}\n{marks}"


def one_line(text: str, limit: int = 120) -> str:
    """Text of others inside a sentence of ours: one line, no control characters, not long."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut(text: str, limit: int) -> str:
    """At most about `limit` characters: the beginning and the end, with a note of what is missing between."""
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text) - limit:,} characters left out ...]\n"
    half = max(1, (limit - len(note)) // 2)
    return text[:half] + note + text[-half:]
