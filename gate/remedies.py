"""What to do about an output that is wrong in a known way: one sentence for each phrase of `patterns`."""

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


def remedy(name: str, pattern: str) -> str:
    """What to do about an output, given the phrase for what is wrong with it; "" for a phrase that says no more."""
    for words, text in _TABLE:
        if match := re.search(words, pattern):
            group = match[1] if match.re.groups and match[1] else "it"
            return text.replace("{0}", name).replace("{1}", group.rstrip(";,"))
    return ""
