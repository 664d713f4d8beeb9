"""Namespaces of its own for the compile server: no network, and nobody else's processes or shared memory.

A second line behind Landlock and the filter of system calls; many containers and some distributions refuse it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

_USER, _PID, _NET, _IPC = 0x10000000, 0x20000000, 0x40000000, 0x08000000
_DEATH_SIGNAL = 1  # prctl

_libc = ctypes.CDLL(None, use_errno=True)


def enter() -> str:
    """Go on in a new process inside new user, network, IPC and PID namespaces; the old one waits and ends alike.

    Call it before anything starts a thread.  Returns "" inside, or why the kernel refused (then nothing changed).
    When this process ends, so does everything that it has started, wherever it hides.
    """
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(_USER | _PID | _NET | _IPC):
        return f"namespaces are refused here ({os.strerror(ctypes.get_errno())})"
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        raise OSError(f"a new user namespace could not be given its user ({error})") from error
    waiting = os.getpid()
    child = os.fork()
    if child == 0:
        _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        return ""
    for descriptor in (0, 1):
        os.close(descriptor)  # the other ends must notice when the child is gone
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(waiting, -code)
    os._exit(code if code >= 0 else 1)
