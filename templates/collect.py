"""Take over what a compile child left in its scratch folder. Nothing in there is trusted.

A hostile child may leave links instead of files, huge files, or a report that describes another kernel: then
the objects of others could be overwritten, or a candidate's kernel be timed as the bare one.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import unicodedata
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from . import watch
from .signature import Signature

MOST = {"report.json": 2**20, "kernel.so": 64 * 2**20, "compile.log": 4 * 2**20}
"""Bytes."""
_TEXTS = ("error", "trace")
_NUMBERS = {"where": 10**6, "seconds": 10.0**6, "cpu_seconds": 10.0**6, "spill_bytes": 2**20, "stages": 1000}
"""With the largest that is believed; none is below zero."""
MOST_ARGUMENTS = 256


def collect(
    scratch: Path, folder: Path, asked: Signature, tier: str, sandbox: dict[str, Any], ended_well: bool
) -> dict[str, Any]:
    """Move object, log and report from scratch to folder, and remove scratch; returns the report as it is kept.

    The report says ok only if the child ended well, with a signature that is what was asked for and an object.
    """
    if found := earlier(folder):
        watch.remove(scratch)
        return found
    report = _report(scratch)
    report["ok"] = report["ok"] and ended_well
    if report["ok"]:
        try:
            report["signature"] = _checked(report.get("signature"), asked, tier).model_dump(mode="json")
            content = plain_bytes(scratch / "kernel.so", MOST["kernel.so"])
            _keep(folder / "kernel.so", content)
            report["object"] = _digest(content)
        except (OSError, ValueError) as error:
            report = {
                "ok": False,
                "error": f"the compile child's answer was refused: {error}",
                "seconds": report.get("seconds", 0.0),
            }
    try:
        log = plain_bytes(scratch / "compile.log", MOST["compile.log"])
    except (OSError, ValueError):
        log = b""
    _keep(folder / "compile.log", log)
    report["sandbox"] = sandbox
    _keep(folder / "report.json", json.dumps(report).encode())
    watch.remove(scratch)
    return report


def earlier(folder: Path) -> dict[str, Any]:
    """The report of a build that was kept here, by whichever process; {} if its object is not there as it was.

    It stays: an object must not change once it may be under judgement, and a module that runs twice can make two.
    """
    try:
        found = json.loads((folder / "report.json").read_text())
        Signature.model_validate(found["signature"])
        content = (folder / "kernel.so").read_bytes()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    digest = _digest(content)
    return found if found.get("ok") is True and content and found.get("object", digest) == digest else {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def plain_bytes(path: Path, most: int) -> bytes:
    """The content of an ordinary file. Raises ValueError for a link, a pipe or a large file, OSError where none is."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise ValueError(f"{path.name} is a link") from None
        raise OSError(error.errno, f"{path.name} cannot be read ({error.strerror})") from None
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise ValueError(f"{path.name} is not an ordinary file")
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path.name} is larger than {most // 2**20} MiB")
    return content


def _report(scratch: Path) -> dict[str, Any]:
    try:
        data = json.loads(plain_bytes(scratch / "report.json", MOST["report.json"]))
    except (OSError, ValueError, RecursionError):
        return {"ok": False}
    if not isinstance(data, dict) or not _writable(data):
        return {"ok": False}
    kept: dict[str, Any] = {name: plain_text(data[name]) for name in _TEXTS if isinstance(data.get(name), str)}
    for name, most in _NUMBERS.items():
        value = data.get(name)
        if isinstance(value, type(most)) and not isinstance(value, bool) and 0 <= value <= most:
            kept[name] = value
    return {**kept, "ok": data.get("ok") is True, "signature": data.get("signature")}


def plain_text(text: str, most: int = 8000) -> str:
    """What can be written to any file and any terminal: no half characters, nothing that is not seen, not too long."""
    return "".join(c for c in text[:most] if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))


def _writable(data: Any) -> bool:
    """Whether this is JSON that others read: no half characters, no NaN."""
    try:
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _checked(data: Any, asked: Signature, tier: str) -> Signature:
    """The signature, if the child changed only what a child finds out. Raises ValueError."""
    try:
        found = Signature.model_validate(data)
    except (ValidationError, RecursionError):
        raise ValueError("its signature is none") from None
    free: dict[str, Any] = {"fields": found.fields}
    if tier == "cutedsl":
        free |= {"mode": found.mode, "d": found.d, "c": found.c, "arguments": found.arguments}
    if asked.model_copy(update=free) != found:
        raise ValueError("its signature is not that of the kernel that was asked for")
    if len(found.arguments) > MOST_ARGUMENTS or len(found.fields) > MOST_ARGUMENTS:
        raise ValueError("its signature has more arguments than a kernel takes")
    names = [*found.fields, *(a.field for a in found.arguments)]
    odd = next((n for n in names if not (n.isascii() and n.isidentifier())), None)
    if odd is not None:
        raise ValueError(f"its signature calls an argument {odd!r:.40}, which is no name")
    fields = [a.field for a in found.arguments]
    if len({*fields}) < len(fields):
        raise ValueError("its signature has two arguments of one name")
    written = [(a.name, a.role in ("store", "sink")) for a in found.arguments if a.role != "constant"]
    written += [(name, kind) for name, kind in ((found.d, True), (found.c, False)) if name is not None]
    for name, is_output in written:
        if name not in (found.outputs if is_output else found.inputs):
            what = "output" if is_output else "input"
            raise ValueError(f"its signature names {name!r:.40}, which is no {what} of the task")
    return found


def _keep(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(content)
    part.replace(path)
