"""What goes wrong with the registry and its operators, in one sentence each."""

import sys
import warnings


class RegistryError(ValueError):
    """An entry that cannot be read or written: names the file, what is wrong with it, and the remedy."""


class AdmissionError(RegistryError):
    """A kernel that may not enter the registry, and why."""


class UnknownKernel(RegistryError, LookupError):
    """A name that neither the catalogue nor a store knows; suggests the nearest one."""


class OutsideDomain(RuntimeError):
    """Inputs that a strict operator may not hand to its kernel, and why."""


class InputError(ValueError):
    """Inputs that do not fit the task at all (missing, wrong rank, sizes that disagree)."""


class FallbackWarning(UserWarning):
    """An operator runs the unfused reference, and why."""


def warn(message: str) -> None:
    """Warn at the caller's line, however deep in this package or in torch it was noticed."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("codasmith", "torch"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, FallbackWarning, stacklevel=level)
