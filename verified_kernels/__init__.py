"""The registry of verified kernels, and the PyTorch operators made from them.

    from codasmith.verified_kernels import load
    op = load("rmsnorm_swiglu")

`record` is the evidence kept with a kernel, `store` the folders they live in, `admission` the only way in;
`load` makes an operator of a name, `runner` decides call by call between kernel and reference.
Depends on `gate` for verdicts, `tasks` for references and `templates` for launching.  Compiles only what it knows and
this machine cannot load (`rebuild`).
"""

from typing import TYPE_CHECKING, Any

from .add import Added, add
from .admission import admit
from .errors import AdmissionError, FallbackWarning, InputError, OutsideDomain, RegistryError, UnknownKernel
from .export import export
from .load import find, load
from .operator import Operator
from .record import Author, Record
from .store import Entry, stores

if TYPE_CHECKING:
    from .plot import save as save_plot
    from .show import describe, list_entries, problems, render, render_list

__all__ = [
    "Added",
    "AdmissionError",
    "Author",
    "Entry",
    "FallbackWarning",
    "InputError",
    "Operator",
    "OutsideDomain",
    "Record",
    "RegistryError",
    "UnknownKernel",
    "add",
    "admit",
    "describe",
    "export",
    "find",
    "list_entries",
    "load",
    "problems",
    "render",
    "render_list",
    "save_plot",
    "stores",
]


def __getattr__(name: str) -> Any:
    """What shows entries takes rich, for which a process that computes need not wait."""
    if name == "save_plot":
        from .plot import save

        return save
    if name in ("describe", "list_entries", "problems", "render", "render_list"):
        from . import show

        return getattr(show, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
