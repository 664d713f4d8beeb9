"""System calls that a compile child has no business with, refused through libseccomp (package pyseccomp).

A refused call fails with EPERM, which Python raises as PermissionError at the candidate's line.
"""

from __future__ import annotations

import errno
import os

OUTWARD = (
    # the network, and shared memory by other names than files
    *("socket", "socketpair", "shmget", "shmat", "shmctl", "semget", "semctl", "semop", "semtimedop", "mq_open"),
    *("mq_unlink", "msgget", "msgctl", "msgsnd", "msgrcv", "memfd_create", "memfd_secret"),
    # other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "kcmp"),
    *("process_madvise", "migrate_pages", "move_pages"),
    # namespaces, mounts, and other ways round the file system's rules
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsmount"),
    *("fsconfig", "fspick", "mount_setattr", "name_to_handle_at", "open_by_handle_at", "swapon", "swapoff", "quotactl"),
    # wide doors into the kernel
    *("bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "keyctl"),
    *("add_key", "request_key", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"),
    *("reboot", "syslog", "acct", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname"),
    *("setdomainname", "iopl", "ioperm", "personality", "vhangup", "lookup_dcookie", "nfsservctl"),
)
OF_CUDA = ("memfd_create", "process_madvise", "migrate_pages", "move_pages", "sched_setaffinity")
"""What the CUDA driver may want of those; all of them work on the process itself."""
METADATA = (
    # no right of Landlock's covers these, on files that it closes too
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat", "utime", "utimes"),
    *("futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr"),
    *("fremovexattr", "removexattrat", "file_setattr"),
)
TURNS = ("setpriority", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr")
"""Who waits for whom: other processes of the same user could be made to wait."""
SHARED = ("io_setup", "inotify_init", "inotify_init1", "fanotify_init", "flock")
"""What a user, or the machine, has only so many of for all processes, and the lock that takes no right to write: others
would get none, or wait. A CUDA driver is not asked whether it wants one."""
NEW_PROCESSES = ("execve", "execveat", "fork", "vfork")
SIGNALS = ("kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "setsid", "setpgid", "sched_setaffinity")

_OWNER = {"fcntl": (8, 10, 15), "ioctl": (0x8901, 0x8902)}
"""F_SETOWN, F_SETSIG, F_SETOWN_EX; FIOSETOWN, SIOCSPGRP: the kernel signals the owner of a descriptor."""
_FILE = {"fcntl": (1024,), "ioctl": (0x40086602, 0x401C5820)}
"""F_SETLEASE: who opens the file waits for the lease's holder; FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR: its attributes."""
_PIPE = 1031
"""F_SETPIPE_SZ: of a user's pages for pipes little is left for others."""
_DUMPABLE = 4  # prctl: a process that is not cannot be looked into
_INT = 0xFFFFFFFF  # of these arguments the kernel looks at no more
_CLONE_THREAD = 0x10000
_CLONE_FILES = 0x400
_CLONE_NAMESPACES = 0x7E020000  # new mount, cgroup, uts, ipc, user, pid, net


def available() -> str:
    """Empty where filters can be made, else why not."""
    try:
        import pyseccomp  # noqa: F401
    except ImportError:
        return "the package pyseccomp is not installed"
    except (RuntimeError, OSError) as error:
        return f"libseccomp cannot be loaded ({error}); install libseccomp2"
    return ""


def refuse(*, alone: bool, with_cuda: bool = False) -> None:
    """Refuse OUTWARD calls to this thread and all that it starts; with `alone`, new processes, signals, turns and
    changes of what stands beside a file's content too.

    with_cuda: for a process that has a CUDA context. What the driver may want of those calls stays possible, and
    the filter is put on all threads at once, for the driver has started some before.
    Threads stay possible. Raises OSError where the kernel takes no filter.
    """
    import pyseccomp as seccomp

    denied = seccomp.ERRNO(errno.EPERM)
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    if with_cuda:
        rules.set_attr(seccomp.Attr.CTL_TSYNC, 1)
    for name in (*OUTWARD, *((*NEW_PROCESSES, *SIGNALS, *METADATA, *TURNS) if alone else ())):
        if not with_cuda or name not in OF_CUDA:
            _add(rules, denied, name)
    # The flags of clone3 lie in memory, where no filter sees them; the C library falls back to clone.
    _add(rules, seccomp.ERRNO(errno.ENOSYS), "clone3")
    if alone:
        for flag in (_CLONE_THREAD, _CLONE_FILES):  # a thread's own descriptors would be counted by nobody
            _add(rules, denied, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, 0))
        _add(rules, denied, "prlimit64", seccomp.Arg(0, seccomp.NE, 0))  # only one's own
        # abort() signals its own thread this way.
        _add(rules, denied, "tgkill", seccomp.Arg(0, seccomp.NE, os.getpid()))
        if not with_cuda:
            for name in SHARED:
                _add(rules, denied, name)
            _add(rules, denied, "fcntl", seccomp.Arg(1, seccomp.MASKED_EQ, _INT, _PIPE))
            _add(rules, denied, "prctl", seccomp.Arg(0, seccomp.MASKED_EQ, _INT, _DUMPABLE))
        for call, commands in (*_OWNER.items(), *_FILE.items()):
            for command in commands:
                _add(rules, denied, call, seccomp.Arg(1, seccomp.MASKED_EQ, _INT, command))
    else:
        for bit in (1 << n for n in range(32) if _CLONE_NAMESPACES >> n & 1):
            _add(rules, denied, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, bit, bit))
    rules.load()


def _add(rules: object, action: object, name: str, *arguments: object) -> None:
    import pyseccomp as seccomp

    if int(seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)) < 0:
        return  # this processor has no such call, or libseccomp is older than it
    rules.add_rule(action, name, *arguments)  # type: ignore[attr-defined]
