"""Random epilogues: compositions of primitives that look like fusions, drawn from a generator of random numbers.

A draft starts at the accumulator and takes steps (a vector, a tile, an activation, a pairing), then chooses what to
store and what to reduce.  It is well typed and nothing more; `hygiene` says whether it is worth asking.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..primitives.graph import EVEN, ODD, OPERAND, PACK, Builder, Graph
from ..primitives.types import DOUBLE, FULL, SAME, Operand

Mode = Literal["element", "pair", "packed"]
DIFFICULTIES = (1, 2, 3, 4)
"""1: vectors and one activation. 2: tiles, or pairs. 3: reductions and second outputs. 4: longer, and backward of
pairs."""

_STEPS = {1: (2, 3), 2: (2, 4), 3: (3, 4), 4: (4, 6)}
_ONE = ("silu", "gelu", "gelu_tanh", "relu", "relu_sq", "tanh", "sigmoid", "softplus", "erf", "sin", "cos", "abs")
_GATES = ("silu", "gelu", "gelu_tanh", "relu", "sigmoid", "tanh", "relu_sq", "softplus")
_OF_TILE = ("sigmoid", "tanh", "silu_grad", "gelu_tanh_grad", "sigmoid_grad", "tanh_grad", "relu_grad", "cos")
_SCALES = (0.25, 0.5, 0.75, 1.25, 1.5, 1.75)
_SHIFTS = (-0.75, -0.5, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Draft:
    """An epilogue and what a task needs around it: declarations as they are written in a task file."""

    graph: Graph
    tensors: dict[str, str]
    """Every parameter of the reference, in order, such as {"x": 'Tensor("M K")'}."""
    outputs: dict[str, str]
    gemm: str
    mode: Mode
    halves: bool
    width: str
    """The symbol of the columns: N, or F where columns come in pairs."""

    @property
    def level(self) -> int:
        types = self.graph.types
        if any(t.reduced for t in types):
            return 3
        tiles = any(n.op == OPERAND and t.rows and t.cols for n, t in zip(self.graph.nodes, types, strict=True))
        return 2 if tiles or self.mode != "element" or len(self.outputs) > 1 else 1


def compose(rng: random.Random, difficulty: int) -> Draft:
    """One draft. The same state of the generator and difficulty always give the same one."""
    return _Composer(rng, difficulty).draft()


class _Composer:
    def __init__(self, rng: random.Random, difficulty: int):
        self.rng, self.difficulty = rng, difficulty
        weights = {1: (1, 0, 0), 2: (1, 1, 0), 3: (2, 1, 0), 4: (2, 2, 1)}[difficulty]
        self.mode: Mode = rng.choices(("element", "pair", "packed"), weights)[0]
        self.halves = self.mode == "pair" and rng.random() < 0.5
        self.n = {"element": "N", "pair": "2F", "packed": "F"}[self.mode]
        self.layout = {"pair": ', layout="halves"' if self.halves else ', layout="pairs"'}.get(self.mode, "")
        self.declared = self._pool()
        self.free = set(self.declared)
        self.b = Builder(operand for operand, _ in self.declared.values())
        self.outputs: dict[str, int] = {}

    def _pool(self) -> dict[str, tuple[Operand, str]]:
        """Operands by name, typed and declared. A halves layout has no tiles: the GEMM reads those in pairs."""
        n, lay = self.n, self.layout
        row, col = {"rows": False, "cols": FULL}, {"rows": True, "cols": SAME}
        pool = {
            "bias": (row, f'Tensor("{n}"{lay})'),
            "gamma": (row, f'Tensor("{n}", "f32"{lay}, low=0.5, high=1.5)'),
            "row_scale": (col, 'Tensor("M", "f32", low=0.5, high=1.5)'),
            "row_shift": (col, 'Tensor("M", "f32")'),
            "alpha": ({"rows": False, "cols": SAME}, 'Tensor("", low=0.5, high=2.0)'),
        }
        if self.difficulty > 1 and not self.halves:
            pool["residual"] = ({"rows": True, "cols": FULL}, f'Tensor("M {n}"{lay})')
            pool["saved"] = ({"rows": True, "cols": FULL}, f'Tensor("M {n}"{lay})')
        if self.mode == "pair" and not self.halves:
            pool["table"] = ({"rows": True, "cols": FULL}, f'Tensor("M {n}", layout="pairs", low=-1.0, high=1.0)')
        if self.mode == "packed":
            pool["z"] = ({"rows": True, "cols": DOUBLE}, 'Tensor("M 2F", layout="pairs")')
        if self.difficulty == 4 and self.mode == "element":
            pool["target"] = ({"rows": True, "cols": SAME, "index": True}, 'Tensor("M", "i64", low=0, high="N")')
        return {name: (Operand.model_validate({"name": name, **grid}), text) for name, (grid, text) in pool.items()}

    def draft(self) -> Draft:
        value = self._chain(self.b.acc(), self.rng.randint(*_STEPS[self.difficulty]))
        if self.mode == "pair":
            self._finish_pair(value)
        elif self.mode == "packed":
            self._finish_packed(value)
        else:
            self._finish_element(value)
        graph = self.b.finish(self.outputs).canonical()
        used = {o.name for o in graph.used_operands}
        graph = graph.model_copy(update={"operands": tuple(o for o in graph.operands if o.name in used)})
        gemm, product = self._product()
        operands = {name: text for name, (_, text) in self.declared.items() if name in used}
        outputs = {name: self._declare(graph, name) for name in self.outputs}
        width = self.n[-1]
        return Draft(graph, {**product, **operands}, outputs, gemm, self.mode, self.halves, width)

    def _product(self) -> tuple[str, dict[str, str]]:
        n, lay = self.n, self.layout
        kind = self.rng.choices(("x @ w.T", "dy @ w", "dy.T @ x"), (7, 2, 1))[0]
        if kind == "x @ w.T":
            return kind, {"x": 'Tensor("M K")', "w": f'Tensor("{n} K", scale="K**-0.5"{lay})'}
        if kind == "dy @ w":
            return kind, {"dy": 'Tensor("M K")', "w": f'Tensor("K {n}", scale="K**-0.5"{lay})'}
        return kind, {"dy": 'Tensor("K M")', "x": f'Tensor("K {n}", scale="K**-0.5"{lay})'}

    def _declare(self, graph: Graph, name: str) -> str:
        kind = graph.types[graph.outputs[name]]
        if kind.reduced:
            return 'Tensor("M", "f32")' if kind.reduced == "row" else f'Tensor("{self.n}", "f32"{self.layout})'
        if self.mode == "pair":
            return f'Tensor("M 2F"{self.layout})' if kind.cols == FULL else 'Tensor("M F")'
        if self.mode == "packed":
            return 'Tensor("M 2F", layout="pairs")' if kind.cols == DOUBLE else 'Tensor("M F")'
        return 'Tensor("M N")'

    # --- steps -----------------------------------------------------------------------------------

    def _chain(self, value: int, steps: int) -> int:
        """Vectors, tiles and activations in turn, so that two activations seldom follow each other."""
        active = False
        for step in range(steps):
            kinds: list[tuple[Callable[[int], int | None], int]] = [(self._vector, 4), (self._constant, 1)]
            if not active:
                kinds.append((self._activation, 4))
            if {"residual", "saved"} & self.free:
                kinds.append((self._tile, 4))
            if self.mode == "packed" and step > 1:
                break
            choice = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
            moved = choice(value)
            if moved is not None:
                value, active = moved, choice == self._activation
        return value

    def _take(self, *names: str) -> int | None:
        left = [name for name in names if name in self.free]
        if not left:
            return None
        name = self.rng.choice(left)
        self.free.discard(name)
        return self.b.operand(name)

    def _vector(self, value: int) -> int | None:
        operand = self._take("bias", "gamma", "row_scale", "row_shift", "alpha")
        if operand is None:
            return None
        scales = self.b.nodes[operand].name in ("gamma", "row_scale", "alpha")
        return self.b.add("mul" if scales else "add", (value, operand))

    def _constant(self, value: int) -> int:
        if self.rng.random() < 0.5:
            return self._scaled(value)
        return self.b.add("add", (value, self.b.const(self.rng.choice(_SHIFTS))))

    def _scaled(self, value: int) -> int:
        return self.b.add("mul", (value, self.b.const(self.rng.choice(_SCALES))))

    def _tile(self, value: int) -> int | None:
        tile = self._take("residual", "saved")
        if tile is None:
            return None
        kind = self.rng.randrange(6)
        if kind == 0:
            return self.b.add("add", (value, tile))
        if kind == 1:
            return self.b.add("add", (value, self._scaled(tile)))
        if kind == 2:
            return self.b.add("maximum", (value, tile))
        if kind == 3:
            positive = self.b.add("gt", (tile, self.b.const(0.0)))
            return self.b.add("where", (positive, value, self._scaled(value)))
        return self.b.add("mul", (value, self.b.add(self.rng.choice(_OF_TILE), (tile,))))

    def _activation(self, value: int) -> int:
        b, rng = self.b, self.rng
        kind = rng.randrange(10)
        if kind == 0:
            return b.add("softcap", (value, b.const(rng.choice((1.5, 2.0, 3.0)))))
        if kind == 1:
            return b.add("clamp", (value, b.const(rng.choice((-1.0, -0.5))), b.const(rng.choice((0.75, 1.5)))))
        if kind == 2:
            leak = b.add("mul", (value, b.const(rng.choice((0.01, 0.1, 0.2)))))
            return b.add("where", (b.add("gt", (value, b.const(0.0))), value, leak))
        if kind == 3:
            return b.add("div", (value, b.add("add", (b.add("abs", (value,)), b.const(1.0)))))
        if kind == 4:
            square = b.add("mul", (value, value))
            return b.add("mul", (value, b.add("rsqrt", (b.add("add", (square, b.const(1.0))),))))
        if kind == 5:
            return b.add("mul", (value, b.add("sigmoid", (self._scaled(value),))))
        return b.add(rng.choice(_ONE), (value,))

    # --- endings ---------------------------------------------------------------------------------

    def _finish_element(self, value: int) -> None:
        stored = self.rng.random() < 0.85 or self.difficulty < 3
        if self.difficulty >= 3 and stored and self.rng.random() < 0.4:
            self.outputs["h"] = value
            value = self._chain(value, 2)
            if value == self.outputs["h"]:
                value = self._scaled(value)
        if stored:
            self.outputs["y"] = value
        if self.difficulty >= 3:
            for _ in range(self.rng.choice((1, 1, 2))):
                self._reduce(value, wide=True)

    def _finish_pair(self, value: int) -> None:
        even, odd = self.b.add(EVEN, (value,)), self.b.add(ODD, (value,))
        if "table" in self.free and self.rng.random() < 0.35:
            table = self._take("table")
            assert table is not None
            turned = self.b.rotate(value, self.b.add(EVEN, (table,)), self.b.add(ODD, (table,)))
            self.outputs["y"] = turned
            if self.difficulty >= 3:
                self._reduce(turned, wide=True)
            return
        if not self.halves and self.rng.random() < 0.4:
            self.outputs["z"] = value
        joined = self._joined(even, odd)
        self.outputs["o"] = joined
        if self.difficulty >= 3:
            self._reduce(joined, wide=False)

    def _joined(self, gate: int, up: int) -> int:
        b, rng = self.b, self.rng
        kind = rng.randrange(5)
        if kind == 0:
            return b.add("maximum", (gate, self._scaled(up)))
        if kind == 1:
            return b.add("mul", (b.add(rng.choice(_GATES), (gate,)), b.add("add", (up, b.const(1.0)))))
        if kind == 2:
            return b.add("mul", (b.add(rng.choice(_GATES), (gate,)), b.add("tanh", (up,))))
        if kind == 3:
            return b.add("mul", (gate, b.add("sigmoid", (self._scaled(up),))))
        return b.add("mul", (b.add(rng.choice(_GATES), (gate,)), up))

    def _finish_packed(self, value: int) -> None:
        """The backward of a gated product: two gradients packed, and the product itself again."""
        b, rng = self.b, self.rng
        z = self._take("z")
        assert z is not None
        gate, up = b.add(EVEN, (z,)), b.add(ODD, (z,))
        name = rng.choice(("silu", "gelu_tanh", "sigmoid", "tanh", "relu_sq"))
        active = b.add(name, (gate,))
        slope = b.add(f"{name}_grad", (gate,))
        d_gate = b.add("mul", (b.add("mul", (value, up)), slope))
        d_up = b.add("mul", (value, active))
        self.outputs["dz"] = b.add(PACK, (d_gate, d_up))
        if rng.random() < 0.6:
            self.outputs["o"] = b.add("mul", (active, up))
        if rng.random() < 0.6:
            total = b.add("add", (b.add("mul", (gate, d_gate)), b.add("mul", (up, d_up))))
            self.outputs["total"] = b.add("row_sum", (total,))

    def _reduce(self, value: int, *, wide: bool) -> None:
        """Add a reduction of a value under a name of its own."""
        choices = ["row_sum", "row_sumsq", "row_max", "row_absmax", "row_lse"]
        if wide and self.mode == "element":
            choices += ["col_sum", "col_absmax"]
        if "target" in self.free:
            choices += ["select"] * 2
        kind = self.rng.choice([c for c in choices if c not in self.outputs])
        if kind == "row_sumsq":
            self.outputs[kind] = self.b.add("row_sum", (value, value))
        elif kind == "select":
            target = self._take("target")
            assert target is not None
            self.outputs[kind] = self.b.add("select", (value, target))
        else:
            self.outputs[kind] = self.b.add(kind, (value,))
