"""Which gate judged: a name for the code that decides a verdict, so that verdicts of two gates are not mixed."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

PACKAGES = ("primitives", "templates", "tasks", "gate")
"""What a verdict depends on beside its task and candidate, which have digests of their own."""


@cache
def edition() -> str:
    """Twelve hexadecimal digits of a digest over the source files of the gate and of what is below it."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for file in sorted(resources.files(f"codasmith.{package}").iterdir(), key=lambda f: f.name):
            if file.name.endswith(".py"):
                digest.update(f"{package}/{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]
