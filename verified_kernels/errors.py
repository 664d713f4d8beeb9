"""What goes wrong with the registry and its operators, in one sentence each."""


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
