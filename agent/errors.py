"""What ends a command early, each in one sentence, and the exit codes of the command line."""

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


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after the journal was closed properly; says how to go on."""
