"""Landlock: a process gives up the file system, but for the paths that it names. Linux 5.13 and newer, no privileges.

Called through ctypes, for the C library has no wrappers; numbers and layouts are those of linux/landlock.h.
What is given up is given up for good, by the thread that asks and by all that it starts.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # system calls, the same on x86_64 and aarch64
_VERSION, _BENEATH = 1, 1
_NO_NEW_PRIVS = 38  # prctl

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights a version of the interface knows."""
_DEVICES = 1 << 6 | 1 << 11  # making character and block devices
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15
"""The rights that mean something for what is no folder; others are refused for it."""
READ = EXECUTE | READ_FILE | READ_DIR
DEVICE = READ_FILE | WRITE_FILE | 1 << 15
"""To open a device, and to talk to it otherwise than by reading and writing."""

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def version() -> int:
    """Of the kernel's interface; 0 where there is none."""
    return max(int(_libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))), 0)


def restrict(readable: Iterable[tuple[Path, int]], writable: Iterable[Path], *, abstract_sockets: bool = False) -> None:
    """Leave this thread `readable` with the rights beside each, `writable` to read, run and write, and nothing else.

    A right given to a folder holds for all below it.  TCP, abstract sockets and signals to processes outside go
    too, where the kernel knows how; abstract_sockets stay if asked.  Raises OSError where the kernel refuses.
    """
    abi = version()
    if not abi:
        raise OSError("the kernel has no Landlock")
    handled = (1 << _ALL[min(abi, 5)]) - 1
    wanted = _Ruleset(handled, 0b11 if abi >= 4 else 0, (0b10 if abstract_sockets else 0b11) if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _call(_CREATE, ctypes.byref(wanted), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for path, rights in readable:
            _allow(ruleset, path, rights & handled)
        for path in writable:
            _allow(ruleset, path, handled & ~_DEVICES)
        if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "no_new_privs was refused")
        _call(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # what cannot be reached now cannot be reached later
    try:
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            rights &= _ON_FILES
        rule = _Beneath(rights, folder)
        _call(_ADD, ctypes.c_int(ruleset), ctypes.c_int(_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(folder)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
