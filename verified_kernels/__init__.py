"""The registry of verified kernels, and the PyTorch operators made from them.

    from codasmith.verified_kernels import load
    op = load("rmsnorm_swiglu")

`record` is the evidence kept with a kernel, `store` the folders they live in, `admission` the only way in;
`load` makes an operator of a name, `runner` decides call by call between kernel and reference.
Depends on `gate` for verdicts, `tasks` for references and `templates` for launching; never compiles.
"""

from .add import Added, add
from .admission import admit
from .errors import AdmissionError, FallbackWarning, InputError, OutsideDomain, RegistryError, UnknownKernel
from .export import export
from .load import find, load
from .operator import Operator
from .plot import save as save_plot
from .record import Author, Record
from .show import describe, list_entries, problems, render, render_list
from .store import Entry, stores

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
