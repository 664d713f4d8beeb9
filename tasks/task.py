"""A fusion task: a plain-PyTorch reference, the product it contains, its tensors and its workloads.

Everything else follows from the one reference: the float64 oracle, the unfused path in the storage
dtype, the baselines, the prompt and the signature that an epilogue must have.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..primitives.types import DOUBLE, FULL, HALF, SAME, Operand
from . import domain
from .declaration import check
from .errors import TaskError
from .source import meaning, source_of
from .tensor import Dimension, Tensor, beside
from .workload import Workload

_PRODUCT = re.compile(r"^\s*(\w+)(\.T)?\s*@\s*(\w+)(\.T)?\s*$")


@dataclass(frozen=True)
class Product:
    """Which operands multiply and how they lie: `a @ b` with either transposed."""

    a: str
    a_transposed: bool
    b: str
    b_transposed: bool

    @staticmethod
    def parse(text: str) -> Product:
        match = _PRODUCT.match(text)
        if not match:
            raise TaskError(f"gemm={text!r} is not a product of two operands; write 'x @ w.T', 'dy @ w' or 'dy.T @ x'")
        return Product(match[1], bool(match[2]), match[3], bool(match[4]))

    def __str__(self) -> str:
        return f"{self.a}{'.T' * self.a_transposed} @ {self.b}{'.T' * self.b_transposed}"


@dataclass(frozen=True)
class Task:
    """A fusion problem. Made by `@task`; see there for the meaning of its parts."""

    name: str
    level: int
    gemm: Product
    tensors: dict[str, Tensor]
    outputs: dict[str, Tensor]
    reference: Callable = field(repr=False)
    source: str = field(repr=False)
    doc: str = ""
    accumulates: tuple[str, ...] = ()
    declared_workloads: tuple[dict[str, int], ...] = ()
    path: Path | None = None
    fp8: dict[str, str] = field(default_factory=dict)
    """Where the operands of the product may be stored in fp8: by operand, the tensor that takes its scale."""

    @cached_property
    def digest(self) -> str:
        """sha256 over everything that changes what the task asks for (not wording, and not what is timed)."""
        return hashlib.sha256(json.dumps(self._asked(), sort_keys=True).encode()).hexdigest()

    def _asked(self) -> dict:
        return {
            "name": self.name,
            "gemm": str(self.gemm),
            "tensors": {k: repr(v) for k, v in self.tensors.items()},
            "outputs": {k: repr(v) for k, v in self.outputs.items()},
            "accumulates": self.accumulates,
            "reference": meaning(self.reference),
        }

    @property
    def m(self) -> Dimension:
        """Rows of the accumulator."""
        return self._side(self.gemm.a, 1 if self.gemm.a_transposed else 0)

    @property
    def n(self) -> Dimension:
        """Columns of the accumulator."""
        return self._side(self.gemm.b, 0 if self.gemm.b_transposed else 1)

    @property
    def k(self) -> Dimension:
        return self._side(self.gemm.a, 0 if self.gemm.a_transposed else 1)

    def _side(self, name: str, axis: int) -> Dimension:
        return self.everything[name].dimensions[axis]

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        seen: dict[str, None] = {}
        for tensor in self.everything.values():
            for dimension in tensor.dimensions:
                if dimension.symbol:
                    seen.setdefault(dimension.symbol)
        return tuple(seen)

    @cached_property
    def operands(self) -> dict[str, Operand]:
        """What the epilogue's parameters after `acc` are: every tensor that is neither an operand of the product nor
        accumulated in place (of such an output, the epilogue returns the change)."""
        return {
            name: Operand(name=name, index=tensor.is_index, **self.grid(name, tensor))
            for name, tensor in self.tensors.items()
            if name not in (self.gemm.a, self.gemm.b) and name not in self.accumulates
        }

    def grid(self, name: str, tensor: Tensor) -> dict:
        """Where a tensor lies on the accumulator's grid of M rows by N columns."""
        dims = tensor.dimensions
        if not dims:
            return {"rows": False, "cols": SAME}
        if len(dims) == 1:
            if dims[0] == self.m:
                return {"rows": True, "cols": SAME}
            return {"rows": False, "cols": self._cols(name, dims[0])}
        if len(dims) == 2 and dims[0] == self.m:
            return {"rows": True, "cols": self._cols(name, dims[1])}
        raise self._misfit(name, tensor)

    def _cols(self, name: str, dimension: Dimension) -> int:
        if dimension.symbol == self.n.symbol:
            for width, ratio in ((HALF, 0.5), (FULL, 1.0), (DOUBLE, 2.0)):
                if dimension.coefficient == self.n.coefficient * ratio:
                    return width
        raise self._misfit(name, self.tensors.get(name) or self.outputs[name])

    def _misfit(self, name: str, tensor: Tensor) -> TaskError:
        return TaskError(
            f"task {self.name!r}: {name} has shape [{tensor.shape}], which does not follow from the product "
            f"{self.gemm} of shape [{self.m} {self.n}]; use [{self.m}] (one a row), [{self.n}] (one a column), "
            f"[{self.m} {self.n}], or half or twice that width"
        )

    @property
    def halves(self) -> tuple[str, ...]:
        """Tensors laid out as halves: B, operands and outputs."""
        return tuple(k for k, t in {**self.tensors, **self.outputs}.items() if t.layout == "halves")

    @property
    def paired(self) -> bool:
        """Whether the accumulator's columns pair up (some tensor declares a layout)."""
        return any(t.layout for t in self.everything.values())

    @property
    def parts(self) -> dict[str, Task]:
        """The products that need an epilogue, each as a task, by stage; "" names the only one of a plain task."""
        return {"": self}

    @property
    def everything(self) -> dict[str, Tensor]:
        """All tensors by name, an accumulated output once."""
        return {**self.tensors, **self.outputs}

    @property
    def storages(self) -> tuple[str, ...]:
        """The dtypes in which its tensors may be stored."""
        return ("bf16", "fp16", "fp8") if self.fp8 else ("bf16", "fp16")

    @property
    def usual_storage(self) -> str:
        """What is meant where no storage dtype is said: fp8 for NAME_fp8, bf16 for all others."""
        from .scaled import SUFFIX

        return "fp8" if self.fp8 and self.name.endswith(SUFFIX) else "bf16"

    def check_storage(self, asked: str | None) -> str:
        """The storage dtype that is asked for, or the usual one. Raises TaskError where the task is not for it."""
        storage = asked or self.usual_storage
        if storage not in self.storages:
            from .scaled import scaled

            remedy = ""
            if storage == "fp8":
                try:
                    remedy = f"; with fp8 operands it is {scaled(self).name}"
                except TaskError as error:
                    remedy = f": {error}"
            raise TaskError(f"task {self.name!r} is for {', '.join(self.storages)}, and {storage} is asked{remedy}")
        return storage

    def dtype_of(self, name: str, storage: str) -> str:
        """The dtype's name: as declared, else the storage dtype; fp8 holds the product's operands only."""
        declared = self.everything[name].dtype
        return declared or (storage if name in (self.gemm.a, self.gemm.b) else beside(storage))

    @property
    def leading(self) -> str:
        """The input whose dtype is the storage dtype."""
        return self.gemm.a

    def workloads(self, storage: str = "bf16") -> tuple[Workload, ...]:
        """The workloads to time: those declared, or one of about 4096 a side."""
        self.check_storage(storage)
        declared: Sequence[dict[str, int]] = self.declared_workloads or (self.default_sizes(4096),)
        return tuple(Workload.model_validate({"sizes": dict(s), "storage": storage}) for s in declared)

    def correctness_workloads(self, storage: str = "bf16") -> tuple[Workload, ...]:
        """Small ragged workloads for checking, every input family among them; the first is the plainest."""
        return domain.correctness_workloads(self, storage)

    def default_sizes(self, side: int) -> dict[str, int]:
        """Sizes for the symbols so that every dimension is near `side`, and legal."""
        sizes = {}
        for symbol in self.symbols:
            largest = max(d.coefficient for t in self.everything.values() for d in t.dimensions if d.symbol == symbol)
            size = side if symbol in (self.m.symbol, self.k.symbol) else side // largest
            step = domain.symbol_step(self, symbol)
            sizes[symbol] = max(size // step, 1) * step
        return sizes

    def flops(self, sizes: dict[str, int]) -> int:
        """Floating-point operations of the product, 2 M N K."""
        return 2 * self.m.size(sizes) * self.n.size(sizes) * self.k.size(sizes)


def task(
    *,
    gemm: str,
    out: dict[str, Tensor],
    level: int = 1,
    accumulates: str | Sequence[str] = (),
    workloads: Sequence[dict[str, int]] = (),
    fp8: dict[str, str] | None = None,
    name: str | None = None,
    **tensors: Tensor,
) -> Callable[[Callable], Task]:
    """Declare a fusion task on a plain-PyTorch reference.

    gemm: the product inside the reference, "x @ w.T", "dy @ w" or "dy.T @ x".
    out: the outputs, by the names that the reference returns.
    level: 1 pointwise and broadcast, 2 tiles and pairs, 3 reductions and stateful, 4 programs, 5 new resources.
    accumulates: outputs to which the kernel adds in place instead of writing them; the reference takes the initial
        value as a parameter of the same name and returns that value plus the change, an epilogue returns the change.
    workloads: sizes of the symbols to time, such as [{"M": 8192, "N": 4096, "K": 4096}].
    fp8: offers the storage dtype fp8 (e4m3): {"x": "row_scale", "w": "col_scale"} says which inputs take the scales of
        the quantised operands, each a float32 vector (a scale a row of the operand) or a number (one a tensor). The
        reference multiplies the operands by @, torch.matmul, torch.mm or F.linear without a bias, and then scales.
    tensors: the reference's parameters in order, each a `Tensor`.

    Raises TaskError, in one sentence, for a declaration that does not fit together.
    """

    def declare(reference: Callable) -> Task:
        title = name or reference.__name__
        parameters = list(inspect.signature(reference).parameters)
        if set(parameters) != set(tensors):
            odd = sorted(set(parameters) ^ set(tensors))
            raise TaskError(
                f"task {title!r}: the reference's parameters and the declared tensors differ in {', '.join(odd)}; "
                "declare each parameter once as name=Tensor(...)"
            )
        product = Product.parse(gemm)
        for operand in (product.a, product.b):
            if operand not in tensors:
                raise TaskError(
                    f"task {title!r}: gemm={gemm!r} names {operand!r}, which is not one of the declared tensors "
                    f"({', '.join(tensors)}); use two of these"
                )
            if len(tensors[operand].dimensions) != 2:
                raise TaskError(
                    f"task {title!r}: {operand} is an operand of the product and has shape "
                    f"[{tensors[operand].shape}]; give it two dimensions"
                )
        result = Task(
            name=title,
            level=level,
            gemm=product,
            tensors={p: tensors[p] for p in parameters},
            outputs=dict(out),
            reference=reference,
            source=source_of(reference),
            doc=inspect.getdoc(reference) or "",
            accumulates=(accumulates,) if isinstance(accumulates, str) else tuple(accumulates),
            declared_workloads=tuple(dict(w) for w in workloads),
            path=Path(inspect.getsourcefile(reference) or ""),
            fp8=dict(fp8 or {}),
        )
        check(result)
        return result

    return declare
