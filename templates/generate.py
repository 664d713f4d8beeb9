"""From a graph to the source of a quack epilogue, and the signature of the kernel it becomes.

The mode follows from the widths in the graph: a value of N/2 columns means that the accumulator is used
in pairs, one of 2N columns that pairs are packed from an N-wide accumulator, else elements stand alone.
In the two pair modes every value is kept as its lanes and the code is written lane by lane.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from jinja2 import Environment

from ..primitives.graph import ACC, COMPARISONS, CONST, EVEN, HEAD_SUM, ODD, OPERAND, PACK, REDUCTIONS, Graph
from ..primitives.primitive import REGISTRY
from ..primitives.types import DOUBLE, FULL, HALF, SAME
from . import ABI
from .errors import TemplateError
from .ragged import vanishes
from .schedule import Schedule
from .signature import Argument, Direction, Join, Signature, TensorSpec

Mode = Literal["element", "acc_pair", "packed_cd_b16x2"]

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
class Frame:
    """What the template must know of a task: the product and the tensors' shapes and dtypes."""

    task: str
    storage: str
    a: str
    a_transposed: bool
    b: str
    b_transposed: bool
    tensors: dict[str, TensorSpec]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    accumulates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generated:
    """Source for quack, and how the kernel made of it is called (schedule and compiled names left open)."""

    source: str
    signature: Signature

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()


def blank_signature(frame: Frame, schedule: Schedule) -> Signature:
    """The task's part of a signature; an epilogue's arguments are not filled in."""
    return Signature(
        abi=ABI,
        task=frame.task,
        schedule=schedule,
        mode="element",
        storage=frame.storage,
        a=frame.a,
        a_transposed=frame.a_transposed,
        b=frame.b,
        b_transposed=frame.b_transposed,
        tensors=frame.tensors,
        inputs=frame.inputs,
        outputs=frame.outputs,
        accumulates=frame.accumulates,
    )


def generate(graph: Graph, frame: Frame, schedule: Schedule) -> Generated:
    """Generate the kernel source for a graph. Raises TemplateError where quack has no way to run it."""
    graph = graph.canonical()
    if not graph.uses_accumulator:
        raise TemplateError(
            "The epilogue never uses the accumulator, so there is no product to compute.",
            "Use acc.",
            "no-accumulator",
        )
    return _Writer(graph, frame, schedule).write()


class _Writer:
    def __init__(self, graph: Graph, frame: Frame, schedule: Schedule):
        self.graph, self.frame, self.schedule = graph, frame, schedule
        self.types = graph.types
        self.operands = {o.name: o for o in graph.used_operands}
        self.mode: Mode = _mode(graph)
        self.body: list[str] = []
        self.results: dict[str, str] = {}
        self.ops: dict[str, str] = {}
        self.sinks: dict[str, str] = {}
        self.stores: list[str] = []
        self.arguments: list[Argument] = []
        self.d: str | None = None
        self.c: str | None = None
        self.lanes: list[list[str]] = []
        self.heads: dict[str, str] = {}
        self.prepass: list[str] = []
        self.prepass_parameters = ["acc"]
        nodes = graph.nodes
        self.compared = {nodes[a].name for n in nodes if n.op in COMPARISONS for a in n.args if nodes[a].op == OPERAND}
        """Among them, the operands of column numbers that are also values."""
        self.loose = frozenset(
            n for n, o in self.operands.items() if o.kind == "col" and frame.tensors[n].dtype in ("bf16", "fp16")
        )
        """Vectors loaded two elements at a time: beyond an odd M one element of other memory follows."""

    # --- the whole -----------------------------------------------------------------------------

    def write(self) -> Generated:
        parameters = ["acc", *self._load_operands(), *self._load_coordinates(), *self._load_heads()]
        self._load_lanes()
        for name in self.frame.outputs:
            if name not in self.graph.outputs:
                raise TemplateError(
                    f"The output {name} is not returned.", "Return every output of the task.", "missing-output"
                )
        stores = [n for n in self.frame.outputs if not self.types[self.graph.outputs[n]].reduced]
        self._choose_main_store(stores)
        for name in self.frame.outputs:
            root = self.graph.outputs[name]
            if self.types[root].reduced:
                self._sink(name, root)
            else:
                self._store(name, root)
        source = _SOURCE.render(
            indices=[a.field for a in self.arguments if a.role == "index"],
            stores=self.stores,
            ops=self.ops,
            sinks=self.sinks,
            heads=self.heads,
            prepass=self.prepass,
            prepass_parameters=self.prepass_parameters,
            mode=self.mode,
            parameters=parameters,
            body=self.body,
            results=self.results,
        )
        signature = blank_signature(self.frame, self.schedule).model_copy(
            update={"mode": self.mode, "d": self.d, "c": self.c, "arguments": tuple(self.arguments)}
        )
        return Generated(source, signature)

    # --- operands ------------------------------------------------------------------------------

    def _load_operands(self) -> list[str]:
        parameters = []
        for name, operand in self.operands.items():
            field = f"x_{name}"
            spec = self.frame.tensors[name]
            if operand.cols == HALF:
                raise TemplateError(
                    f"The operand {name} has N/2 columns, and the GEMM loads tiles and row vectors of N columns only.",
                    "Give the task an operand as wide as the accumulator.",
                    "half-width-operand",
                )
            if operand.kind == "index":
                self.arguments.append(Argument(field=field, name=name, role="index"))
                if name in self.compared:
                    self.ops[field] = field
                    parameters.append(field)
                continue
            if operand.kind == "tile":
                if spec.halves:
                    raise TemplateError(
                        f"The tile {name} is laid out as halves, and tiles are read in adjacent columns.",
                        "Declare it with layout='pairs'.",
                        "halves-tile",
                    )
                if operand.cols == DOUBLE and (spec.dtype not in ("bf16", "fp16") or self.c is not None):
                    raise TemplateError(
                        f"The operand {name} has 2N columns; there may be one such tile, in bf16 or fp16.",
                        "Use one packed 16-bit tile.",
                        "packed-operand",
                    )
                if operand.cols == DOUBLE or (
                    self.c is None and self.mode != "packed_cd_b16x2" and not self.frame.accumulates
                ):
                    self.c = name
                    parameters.append("c")
                    continue
                self.ops[field] = f'TileLoad("{field}")'
            elif operand.kind == "row":
                if operand.cols == DOUBLE:
                    raise TemplateError(
                        f"The row vector {name} has 2N columns, and vectors of N columns can be loaded.",
                        "Give the task two vectors of N columns.",
                        "packed-vector",
                    )
                self.ops[field] = f'{"Halves" * spec.halves}RowVecLoad("{field}")'
            elif operand.kind == "col":
                self.ops[field] = f'ColVecLoad("{field}")'
            else:
                self.ops[field] = f'Scalar("{field}", dtype=Float32)'
            role = operand.kind
            self.arguments.append(Argument(field=field, name=name, role=role))
            parameters.append(field)
        return parameters

    def _load_coordinates(self) -> list[str]:
        fields = []
        for op, resource in (("column_index", "ColumnIndex"), ("row_index", "RowIndex")):
            if any(n.op == op for n in self.graph.nodes):
                field = f"i_{op}"
                self.ops[field] = f'{resource}("{field}")'
                self.arguments.append(Argument(field=field, name=op, role="constant", value=1))
                fields.append(field)
        return fields

    def _load_lanes(self) -> None:
        """Write one assignment a lane for every node in order."""
        pair = self.mode == "acc_pair"
        packed = self.mode == "packed_cd_b16x2"
        for i, node in enumerate(self.graph.nodes):
            args = [self.lanes[a] for a in node.args]
            if node.op == ACC:
                self.lanes.append(self._unpacked("acc", i) if pair else ["acc"])
            elif node.op == CONST:
                self.lanes.append([_literal(node.value)])
            elif node.op == OPERAND:
                self.lanes.append(self._operand_lanes(node.name, i, pair, packed))
            elif node.op in ("column_index", "row_index"):
                self.lanes.append(self._coordinate_lanes(i))
            elif node.op == HEAD_SUM:
                self.lanes.append(self._unpacked(f"h_{i}", i) if pair else [f"h_{i}"])
            elif node.op in (EVEN, ODD):
                lanes = args[0]
                chosen = lanes[0] if node.op == EVEN or len(lanes) == 1 else lanes[1]
                self.lanes.append([chosen])
            elif node.op == PACK:
                self.lanes.append([args[0][0], args[1][0]])
            elif node.op in REDUCTIONS:
                self.lanes.append([])
            else:
                self.lanes.append(self._apply(i, args))

    def _operand_lanes(self, name: str, i: int, pair: bool, packed: bool) -> list[str]:
        operand = self.operands[name]
        if operand.kind == "index":
            return [f"x_{name}"] if name in self.compared else []
        variable = "c" if name == self.c else f"x_{name}"
        if (pair and operand.cols == FULL) or (packed and operand.cols == DOUBLE):
            return self._unpacked(variable, i)
        return [variable]

    def _coordinate_lanes(self, i: int) -> list[str]:
        """The kernel knows the accumulator's columns: those of half its width, or of twice, follow from them."""
        op, width = self.graph.nodes[i].op, self.types[i].cols
        lanes = self._unpacked(f"i_{op}", i) if self.mode == "acc_pair" else [f"i_{op}"]
        if op == "row_index":
            return lanes[:1]
        if width == HALF:
            return [f"({lanes[0]} * Float32(0.5))"]
        if width == DOUBLE:
            return [f"({lanes[0]} * Float32(2.0))", f"({lanes[0]} * Float32(2.0) + Float32(1.0))"]
        return lanes

    def _unpacked(self, variable: str, i: int) -> list[str]:
        self.body.append(f"v{i}_0, v{i}_1 = unpack({variable})")
        return [f"v{i}_0", f"v{i}_1"]

    def _apply(self, i: int, args: list[list[str]]) -> list[str]:
        node = self.graph.nodes[i]
        primitive = REGISTRY[node.op]
        template = primitive.lowering
        if not template:
            raise TemplateError(f"{node.op} has no lowering.", "Use other primitives.", "no-lowering")
        names = list(args)
        for k, a in enumerate(node.args):
            other = self.graph.nodes[a]
            if (node.op, k) == ("div", 1) and other.op == CONST and other.value != 0:
                template = "({a} * {b})"
                names[k] = [_literal(1.0 / other.value)]
        count = max((len(n) for n in names), default=1)
        result = []
        for lane in range(count):
            words = {p: (n[lane] if len(n) > 1 else n[0]) for p, n in zip(primitive.parameters, names, strict=False)}
            variable = f"v{i}" if count == 1 else f"v{i}_{lane}"
            self.body.append(f"{variable} = {template.format(**words)}")
            result.append(variable)
        return result

    # --- heads ---------------------------------------------------------------------------------

    def _load_heads(self) -> list[str]:
        """Write the function that runs over the accumulator before the stores, and return what it gives."""
        roots = {i: n for i, n in enumerate(self.graph.nodes) if n.op == HEAD_SUM}
        if not roots:
            return []
        for node in roots.values():
            self._check_heads(int(node.value))
        needed: set[int] = set()
        for i in reversed(range(len(self.graph.nodes))):
            if i in needed or i in roots:
                needed.update(self.graph.nodes[i].args)
        lanes: list[list[str]] = []
        body, self.body = self.body, self.prepass
        for i, node in enumerate(self.graph.nodes):
            lanes.append(self._lane_before(i, [lanes[a] for a in node.args]) if i in needed else [])
        self.body = body
        for i, node in roots.items():
            self.heads[f"h_{i}"] = lanes[node.args[0]][0]
            self.ops[f"h_{i}"] = f'HeadSum("h_{i}")'
            self.arguments.append(Argument(field=f"h_{i}", name=HEAD_SUM, role="constant", value=int(node.value)))
        return list(self.heads)

    def _lane_before(self, i: int, args: list[list[str]]) -> list[str]:
        node = self.graph.nodes[i]
        if node.op == ACC:
            return ["acc"]
        if node.op == CONST:
            return [_literal(node.value)]
        if node.op == OPERAND and self.operands[node.name].kind != "tile":
            field = f"x_{node.name}"
        elif node.op in ("column_index", "row_index"):
            field = f"i_{node.op}"
        elif node.op in (OPERAND, EVEN, ODD, PACK, HEAD_SUM):
            what = f"the tile {node.name}" if node.op == OPERAND else f"{node.op}"
            raise TemplateError(
                f"A head_sum is taken of {what}, which the accumulator's first walk does not have.",
                "Take it of an expression of acc, vectors and scalars.",
                "bad-head-sum",
            )
        else:
            return self._apply(i, args)
        if field not in self.prepass_parameters:
            self.prepass_parameters.append(field)
        return [field]

    def _check_heads(self, head_dim: int) -> None:
        if self.mode == "packed_cd_b16x2":
            raise TemplateError(
                "The epilogue uses head_sum and values of 2N columns together.",
                "Keep to one of the two.",
                "packed-heads",
            )
        b = self.frame.tensors[self.frame.b].shape
        coefficient, symbol = b[0 if self.frame.b_transposed else 1]
        if coefficient % head_dim:
            raise TemplateError(
                f"head_sum adds up {head_dim} columns, and the product has {'' if coefficient == 1 else coefficient}"
                f"{symbol or coefficient} of them, not always a multiple.",
                f"Declare them as {head_dim}H in the task, or use another head_dim.",
                "bad-head-dim",
            )
        if self.schedule.tile_n % head_dim:
            raise TemplateError(
                f"The schedule {self.schedule.name} has tiles of {self.schedule.tile_n} columns, no whole heads of "
                f"{head_dim}.",
                "Use another schedule, or a head_dim that divides its tile.",
                "tile-width",
            )

    # --- stores --------------------------------------------------------------------------------

    def _choose_main_store(self, stores: list[str]) -> None:
        widths = {n: self.types[self.graph.outputs[n]].cols for n in stores}
        if self.mode == "acc_pair":
            full = [n for n in stores if widths[n] == FULL]
            self.d = next((n for n in self.frame.accumulates if n in full), full[0] if full else None)
        elif self.mode == "packed_cd_b16x2":
            double = [n for n in stores if widths[n] == DOUBLE]
            if len(double) != 1 or self.c is None:
                raise TemplateError(
                    "Beside an operand or output of 2N columns there must be one 2N-wide tile in and one 2N-wide "
                    f"output; the outputs of that width are: {', '.join(double) or 'none'}.",
                    "Read one packed tile and return one packed output.",
                    "packed-store",
                )
            self.d = double[0]
            if self.frame.tensors[self.d].dtype != self.frame.tensors[self.c].dtype:
                raise TemplateError(
                    f"The packed output {self.d} is {self.frame.tensors[self.d].dtype} and the packed tile {self.c} is "
                    f"{self.frame.tensors[self.c].dtype}; they must be the same.",
                    "Declare the same dtype.",
                    "packed-dtype",
                )
        else:
            self.d = next((n for n in self.frame.accumulates if n in stores), stores[0] if stores else None)
        for name in self.frame.accumulates:
            if name != self.d or self.mode == "packed_cd_b16x2":
                raise TemplateError(
                    f"The output {name} is accumulated in place, and only the main store of width N can do that.",
                    "Write it out of place.",
                    "accumulate",
                )

    def _store(self, name: str, root: int) -> None:
        kind, lanes, spec = self.types[root], self.lanes[root], self.frame.tensors[name]
        if not (kind.rows and kind.cols):
            raise TemplateError(
                f"The output {name} is {kind}, the same for whole rows or columns; a tile stores values that fill it.",
                "Return an expression of the accumulator or of a tile.",
                "narrow-output",
            )
        if spec.halves:
            raise TemplateError(
                f"The output {name} is laid out as halves, and the GEMM stores adjacent columns.",
                "Declare it with layout='pairs'.",
                "halves-output",
            )
        if name == self.d:
            pairs = len(lanes) == 2
            self.results["D"] = f"pack({lanes[0]}, {lanes[1]})" if pairs else lanes[0]
            return
        if self.mode == "acc_pair" and kind.cols == FULL:
            field = f"y_{name}"
            self.sinks[field] = f'WideStore("{field}")'
            self.results[field] = f"pack({lanes[0]}, {lanes[-1]})"
            self.arguments.append(Argument(field=field, name=name, role="store"))
            return
        if self.mode == "acc_pair" and spec.dtype not in ("bf16", "fp16"):
            raise TemplateError(
                f"The output {name} is {spec.dtype} and N/2 wide; such a store is 16-bit only.",
                "Declare it in the storage dtype.",
                "half-width-dtype",
            )
        field = f"y_{name}"
        self.stores.append(field)
        self.results[field] = lanes[0]
        self.arguments.append(Argument(field=field, name=name, role="store"))

    # --- reductions ----------------------------------------------------------------------------

    def _sink(self, name: str, root: int) -> None:
        node = self.graph.nodes[root]
        direction, join = REDUCTIONS[node.op]
        if self.frame.tensors[name].halves:
            raise TemplateError(
                f"The output {name} is laid out as halves, and the kernel writes adjacent columns.",
                "Declare it with layout='pairs'.",
                "halves-output",
            )
        factors = node.args if join == "sum" else node.args[:1]
        masked = join in ("sum", "absmax") and not vanishes(self.graph, factors, direction, self.loose)
        values = [self.lanes[a] for a in factors]
        width = max(self.types[a].cols for a in factors)
        if join == "select":
            self._select(name, node.args[1], values[0], width)
            return
        if direction == "col" and self.mode == "packed_cd_b16x2" and width == DOUBLE:
            for lane in (0, 1):
                part = [[v[lane] if len(v) > 1 else v[0]] for v in values]
                self._plain_sink(name, f"y_{name}_{lane}", direction, join, masked, part, out_stride=2, out_offset=lane)
            return
        if self.mode == "acc_pair":
            self._paired_sink(name, direction, join, masked, values, width)
            return
        if width == DOUBLE:
            values = [[self._fold(join, values)]]
        self._plain_sink(name, f"y_{name}", direction, join, masked, values)

    def _plain_sink(
        self,
        name: str,
        field: str,
        direction: Direction,
        join: Join,
        masked: bool,
        values: list[list[str]],
        **placement: int,
    ) -> None:
        scaled = len(values) == 2
        self.sinks[field] = _sink_op(field, direction, join, masked, scaled)
        self.results[field] = f"({values[0][0]}, {values[1][0]})" if scaled else values[0][0]
        self.arguments.append(
            Argument(field=field, name=name, role="sink", direction=direction, join=join, **placement)
        )

    def _paired_sink(
        self, name: str, direction: Direction, join: Join, masked: bool, values: list[list[str]], width: int
    ) -> None:
        """In pair mode a sink takes both lanes and no factors; a half-width value fills one lane."""
        field = f"y_{name}"
        lanes = [_product([v[k] if len(v) > 1 else v[0] for v in values]) for k in (0, 1)]
        identity = "Float32(-math.inf)" if join in ("max", "lse") else "Float32(0.0)"
        if width == HALF:
            lanes[1] = identity
        self.sinks[field] = _sink_op(field, direction, join, masked, scaled=False)
        self.results[field] = f"pack({lanes[0]}, {lanes[1]})"
        stride = 2 if direction == "col" and width == HALF else 1
        self.arguments.append(
            Argument(field=field, name=name, role="sink", direction=direction, join=join, stride=stride)
        )

    def _fold(self, join: str, values: list[list[str]]) -> str:
        """Both lanes of a packed value become one number before the sink."""
        lanes = [_product([v[k] if len(v) > 1 else v[0] for v in values]) for k in (0, 1)]
        if join == "sum":
            return f"{lanes[0]} + {lanes[1]}"
        if join == "max":
            return f"device.max_nan({lanes[0]}, {lanes[1]})"
        if join == "absmax":
            return f"device.max_nan(cute.math.abs({lanes[0]}), cute.math.abs({lanes[1]}))"
        raise TemplateError(
            "row_lse over 2N columns is not possible.", "Reduce the two halves as two outputs.", "packed-lse"
        )

    def _select(self, name: str, index: int, lanes: list[str], width: int) -> None:
        if width != FULL:
            raise TemplateError(
                "select picks from a value as wide as the accumulator only.", "Select before unpack.", "narrow-select"
            )
        field = f"y_{name}"
        companion = f"x_{self.graph.nodes[index].name}"
        self.sinks[field] = f'ColVecSelect("{field}", {companion})'
        self.results[field] = f"pack({lanes[0]}, {lanes[1]})" if self.mode == "acc_pair" else lanes[0]
        self.arguments.append(Argument(field=field, name=name, role="sink", direction="row", join="select"))


def _mode(graph: Graph) -> Mode:
    widths = {t.cols for t in graph.types if t.cols != SAME}
    if HALF in widths and DOUBLE in widths:
        raise TemplateError(
            "The epilogue uses values of N/2 and of 2N columns together.", "Keep to one of the two.", "mixed-widths"
        )
    if HALF in widths:
        return "acc_pair"
    return "packed_cd_b16x2" if DOUBLE in widths else "element"


def _sink_op(field: str, direction: str, join: str, masked: bool, scaled: bool) -> str:
    if join == "lse":
        return f'OnlineLSEReduce("{field}")'
    kind = "ColVecReduce" if direction == "row" else "RowVecReduce"
    combine = {"sum": "add", "max": "max", "absmax": "max_abs"}[join]
    extra = ", scaled=True" if scaled else ""
    return f'{"Masked" if masked else ""}{kind}("{field}", combine="{combine}"{extra})'


def _product(factors: list[str]) -> str:
    return factors[0] if len(factors) == 1 else f"({factors[0]} * {factors[1]})"


def _literal(value: float) -> str:
    text = repr(float(value))
    return f'Float32(float("{text}"))' if "inf" in text or "nan" in text else f"Float32({text})"
