"""Calls that a compile child could reach others or hide by: refused under the filter, and possible without it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from codasmith.templates import sandbox, syscalls

pytestmark = pytest.mark.skipif(bool(syscalls.available()), reason="needs libseccomp")

PREPARED = """
import ctypes, errno, fcntl, os, struct, sys
import pyseccomp
from codasmith.templates import syscalls

def number(name):
    return pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)

libc = ctypes.CDLL(None, use_errno=True)
segment, queue, semaphores = libc.shmget(0, 4096, 0o1600), libc.msgget(0, 0o1600), libc.semget(0, 1, 0o1600)
other = os.open(sys.argv[1], os.O_RDONLY)
stack = ctypes.create_string_buffer(65536)
room, top = ctypes.c_ulong(0), ctypes.c_void_p((ctypes.addressof(stack) + 65000) & ~15)
child = os.fork()
if child == 0:
    if "filtered" in sys.argv:
        syscalls.refuse(alone=True)
    try:
        refused = ({attempt}) == -1 and ctypes.get_errno() == errno.EPERM
    except PermissionError:
        refused = True
    os._exit(refused)
_, status = os.waitpid(child, 0)
libc.shmctl(segment, 0, None), libc.msgctl(queue, 0, None), libc.semctl(semaphores, 0, 0)
print("refused" if os.waitstatus_to_exitcode(status) else "done")
"""
ATTEMPTS = {
    "remove shared memory": "libc.shmctl(segment, 0, None)",
    "remove a queue": "libc.msgctl(queue, 0, None)",
    "remove semaphores": "libc.semctl(semaphores, 0, 0)",
    "have whoever opens a file wait": "fcntl.fcntl(other, 1024, fcntl.F_WRLCK)",
    "mark a file": "fcntl.ioctl(other, 0x40086602, struct.pack('l', 0x80))",
    "not be looked into": "libc.prctl(4, 0, 0, 0, 0)",
    "take what the machine has of asynchronous input": "libc.syscall(number('io_setup'), 8, ctypes.byref(room))",
    "watch files, of which a user may do so much": "libc.inotify_init1(0)",
    "watch files in groups": "libc.fanotify_init(0x200, 0)",
    "lock a file of others": "fcntl.flock(other, fcntl.LOCK_EX)",
    "take the pages that a user has for pipes": "fcntl.fcntl(os.pipe()[0], 1031, 1 << 20)",
    "a thread with descriptors of its own": "libc.clone(ctypes.cast(libc.pause, ctypes.c_void_p), top, 0x10900, None)",
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_a_way_to_others_or_out_of_sight_is_refused(attempt, tmp_path):
    (tmp_path / "other").write_text("x")
    script = PREPARED.replace("{attempt}", attempt)

    def tried(*how):
        command = [sys.executable, "-c", script, str(tmp_path / "other"), *how]
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout

    if not any(word in attempt for word in ("ioctl", "fanotify")):  # some file systems, and containers, have not
        assert tried() == "done\n"
    assert tried("filtered") == "refused\n"


TIMERS = """
import ctypes
from codasmith.templates import sandbox

libc, timer, made = ctypes.CDLL(None), ctypes.c_void_p(), 0
sandbox._limit(60)
while made < 2000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0:
    made += 1
print(made)
"""


def test_of_pending_signals_which_a_user_has_so_many_of_few_can_be_taken():
    made = subprocess.run([sys.executable, "-c", TIMERS], capture_output=True, text=True, timeout=60).stdout
    assert int(made) <= sandbox.DESCRIPTORS
