"""Unpacked libraries, one file a sha256, shared by all processes of a user.

A library is native code that will run in this process: it is hashed again each time it is taken.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from .errors import RegistryError
from .record import CompiledObject
from .store import Entry


def folder() -> Path:
    """CODASMITH_CACHE, or ~/.cache/codasmith."""
    return Path(os.environ.get("CODASMITH_CACHE") or Path.home() / ".cache/codasmith").expanduser() / "libraries"


def unpacked(entry: Entry, compiled: CompiledObject) -> Path:
    """Path of the shared library of one object, unpacking it first if need be. Raises RegistryError."""
    target = folder() / f"{compiled.sha256}.so"
    try:
        if hashlib.sha256(target.read_bytes()).hexdigest() == compiled.sha256:
            return target
    except OSError:
        pass  # not there yet, or not readable: written anew below
    library = entry.library(compiled)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".so")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(library)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RegistryError(
            f"{target.parent} cannot be written ({error.strerror or error}); free space there or set CODASMITH_CACHE"
        ) from None
    return target
