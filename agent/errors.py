"""What ends a command early, each in one sentence, and the exit codes of the command line."""

from __future__ import annotations

import errno

ADMITTED = 0
"""Admitted or passed; or "checked", where there is no GPU."""
CANDIDATE_FAILED = 1
USER_MISTAKE = 2
MACHINE_CANNOT = 3
BUDGET_SPENT = 4
INTERRUPTED = 130


class AgentError(Exception):
    """Something that the user is told in one sentence."""

    exit_code = USER_MISTAKE


class UserMistake(AgentError):
    """What was asked for cannot be meant: names the thing, the value and the remedy."""


class MachineCannot(AgentError):
    """What was asked for is right, and this machine cannot do it now."""

    exit_code = MACHINE_CANNOT


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What the system says of a disk that takes no more."""


def cannot_write(what: object, error: Exception, elsewhere: str, then: str = "") -> UserMistake | MachineCannot:
    """Why something was not written. elsewhere: how to name another place; then: what to do once there is room."""
    reason = getattr(error, "strerror", None) or str(error)
    if getattr(error, "errno", None) in FULL:
        return MachineCannot(f"{what} cannot be written ({reason}); make room{then}")
    return UserMistake(f"{what} cannot be written ({reason}); {elsewhere}")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after the journal was closed properly; says how to go on."""
