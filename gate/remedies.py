"""What to do about an output that is wrong in a known way, one sentence for each phrase of `patterns`; and about what
only a GPU shows, by the finding's code."""

from __future__ import annotations

import re

# (pattern, remedy); {0} is the output's name, {1} the pattern's group.  The first that matches counts.
_TABLE: tuple[tuple[str, str], ...] = (
    (
        r"(?:with the )?even and odd columns (?:of (\w+) |are )exchanged",
        "Exchange the two names: unpack gives the even column first (the reference's first half, or its [..., 0::2]), "
        "and pack takes it first.",
    ),
    (r"with (\w+) negated", "Change the sign with which {1} enters."),
    (r"with (\w+) added twice", "Return the change of {1} only: it is added to what {1} holds."),
    (r"without (\w+) ", "The operand {1} has no effect on {0}: use it as the reference does."),
    (r"the sign is flipped", "Change the sign of {0}: a subtraction may be the wrong way round."),
    (r"a constant factor of (\S+)", "Divide {0} by {1}, or find the factor that is there twice or not at all."),
    (r"a constant offset of (\S+)", "Subtract {1} from {0}, or find the term that is there twice or not at all."),
    (
        r"NaN|infinite",
        "Rewrite what is undefined there: a root or logarithm of a negative number, 0 / 0, or an exp that overflows "
        "(softplus(x) for log(1 + exp(x)), sigmoid(x) for 1 / (1 + exp(-x))).",
    ),
    (
        r"all zero|the constant \S+$",
        "{0} does not depend on acc here: look for a zero factor, or a clamp or where that always takes one side.",
    ),
    (
        r"close but not equal",
        "This looks like an approximation of the wanted function, such as gelu_tanh for gelu: use the exact one.",
    ),
    (r"equals the bare accumulator", "Apply the reference's operations to acc."),
    (
        r"columns lie as|wrong in (?:odd|even)",
        "Columns alternate: compute the even ones and the odd ones with even, odd = unpack(x), and return "
        "pack(even, odd) where the output is full width.",
    ),
)

BY_CODE = {
    "guard-run-to-run": (
        "The same inputs must give the same bits: no atomics, no order of additions that depends on who comes first, "
        "nothing read that the kernel itself has not been given."
    ),
    "guard-out-of-bounds": (
        "Write the declared outputs alone, and of those only the rows and columns that exist: the last tile is ragged."
    ),
    "guard-input-changed": "Inputs are read only; an output that accumulates is the only one that is also an input.",
    "guard-insensitive": (
        "Give each operand its effect: a constant, a saved result or a branch that leaves it out is not the task."
    ),
    "timed-output-wrong": (
        "Do all of the work in every call: nothing may be kept from one to the next, and nothing left to be done "
        "after it."
    ),
    "timed-input-changed": "Inputs are read only, in every call.",
    "below-roofline": "Do all of the work in every call, and between its start and its end.",
    "runner-hung": (
        "Let nothing in an epilogue wait for other threads: no sync_threads, no barrier, no loop whose end depends on "
        "values."
    ),
    "illegal-access": (
        "Hold coordinates against the sizes before anything is loaded or stored: the last tile of a row or column is "
        "ragged."
    ),
}


def remedy(name: str, pattern: str) -> str:
    """What to do about an output, given the phrase for what is wrong with it; "" for a phrase that says no more."""
    for words, text in _TABLE:
        if match := re.search(words, pattern):
            group = match[1] if match.re.groups and match[1] else "it"
            return text.replace("{0}", name).replace("{1}", group.rstrip(";,"))
    return ""
