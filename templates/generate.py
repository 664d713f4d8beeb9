"""From a graph to the source of a quack epilogue, and the signature of the kernel it becomes.

The mode follows from the widths in the graph: a value of N/2 columns means that the accumulator is used
in pairs, one of 2N columns that pairs are packed from an N-wide accumulator, else elements stand alone.
In the two pair modes every value is kept as its lanes and the code is written lane by lane.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from jinja2 import Environment

from ..primitives.graph import Graph
from .errors import TemplateError
from .frame import Frame, blank_signature
from .lanes import load_lanes
from .operands import load_coordinates, load_operands
from .prepass import load_heads
from .reduce import reduce
from .schedule import Schedule
from .signature import Signature
from .stores import choose_main_store, store
from .writer import Writer

_SOURCE = Environment(trim_blocks=True, lstrip_blocks=True).from_string('''\
"""Generated from an epilogue's graph; not to be edited."""

import math

import cutlass
import cutlass.cute as cute
from cutlass import Float32
from quack.epilogue import gemm_epilogue
from quack.epilogue.frontend import pack, unpack
from quack.epilogue.ops import ColVecLoad, ColVecReduce, ColVecSelect, OnlineLSEReduce
from quack.epilogue.ops import RowVecLoad, RowVecReduce, Scalar, TileLoad

from codasmith.templates import device
from codasmith.templates.resources import ColumnIndex, HalvesRowVecLoad, HeadSum, RowIndex, WideStore
from codasmith.templates.sinks import MaskedColVecReduce, MaskedRowVecReduce

{% for field in indices %}
{{ field }} = ColVecLoad("{{ field }}")
{% endfor %}
{% if heads %}

def before({{ prepass_parameters | join(", ") }}):
{% for line in prepass %}
    {{ line }}
{% endfor %}
    return { {%- for name, value in heads.items() %}"{{ name }}": {{ value }}, {% endfor -%} }
{% endif %}


@gemm_epilogue(
    outputs=({% for s in stores %}"{{ s }}", {% endfor %}),
    ops={ {%- for name, op in ops.items() %}"{{ name }}": {{ op }}, {% endfor -%} },
    outs={ {%- for name, op in sinks.items() %}"{{ name }}": {{ op }}, {% endfor -%} },
    extra_ops=({% for field in indices if field not in ops %}{{ field }}, {% endfor %}),
{% if heads %}
    prepass=before,
    prepass_outs=({% for name in heads %}"{{ name }}", {% endfor %}),
{% endif %}
    mode="{{ mode }}",
)
def epilogue({{ parameters | join(", ") }}):
{% for line in body %}
    {{ line }}
{% endfor %}
    return { {%- for name, value in results.items() %}"{{ name }}": {{ value }}, {% endfor -%} }
''')


@dataclass(frozen=True)
class Generated:
    """Source for quack, and how the kernel made of it is called (schedule and compiled names left open)."""

    source: str
    signature: Signature

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()


def generate(graph: Graph, frame: Frame, schedule: Schedule) -> Generated:
    """Generate the kernel source for a graph. Raises TemplateError where quack has no way to run it."""
    graph = graph.canonical()
    if not graph.uses_accumulator:
        raise TemplateError(
            "The epilogue never uses the accumulator, so there is no product to compute.",
            "Use acc.",
            "no-accumulator",
        )
    return _written(Writer(graph, frame, schedule))


def _written(w: Writer) -> Generated:
    parameters = ["acc", *load_operands(w), *load_coordinates(w), *load_heads(w)]
    load_lanes(w)
    for name in w.frame.outputs:
        if name not in w.graph.outputs:
            raise TemplateError(
                f"The output {name} is not returned.", "Return every output of the task.", "missing-output"
            )
    stores = [n for n in w.frame.outputs if not w.types[w.graph.outputs[n]].reduced]
    choose_main_store(w, stores)
    for name in w.frame.outputs:
        root = w.graph.outputs[name]
        if w.types[root].reduced:
            reduce(w, name, root)
        else:
            store(w, name, root)
    source = _SOURCE.render(
        indices=[a.field for a in w.arguments if a.role == "index"],
        stores=w.stores,
        ops=w.ops,
        sinks=w.sinks,
        heads=w.heads,
        prepass=w.prepass,
        prepass_parameters=w.prepass_parameters,
        mode=w.mode,
        parameters=parameters,
        body=w.body,
        results=w.results,
    )
    signature = blank_signature(w.frame, w.schedule).model_copy(
        update={"mode": w.mode, "d": w.d, "c": w.c, "arguments": tuple(w.arguments)}
    )
    return Generated(source, signature)
