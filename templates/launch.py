"""Call a compiled kernel on tensors: no compiler, no quack, no CuTeDSL, no host synchronisation.

A linked object is loaded through tvm_ffi; what its arguments mean stands in the signature.  Shapes, dtypes
and alignment are checked here first, so that what is refused is refused in the task's words.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .signature import Argument, Signature, TensorSpec

if TYPE_CHECKING:
    from .bound import Launch

TORCH_DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn,
    "f32": torch.float32,
    "i32": torch.int32,
    "i64": torch.int64,
}
ALIGNMENT = 16  # bytes: base address and contiguous extent of what TMA moves


class LaunchError(ValueError):
    """These tensors are outside the kernel's domain: which, and why."""


@cache
def _runtime() -> None:
    """Load CuTeDSL's runtime once, where objects can find it."""
    from .link import runtime_library

    ctypes.CDLL(str(_fitting(runtime_library(), _driver_major())), mode=ctypes.RTLD_GLOBAL)


def _fitting(library: Path, major: int) -> Path:
    """The runtime library, or where the driver is of an older CUDA release, the one beside it for that: a runtime
    starts on no driver of an earlier major release than its own."""
    older = library.parents[2] / f"cu{major}" / "lib" / library.name
    return older if f"cu{major}" < library.parents[1].name and older.exists() else library


def _driver_major() -> int:
    """The major CUDA release that the driver is of; 99 where it does not say."""
    try:
        found = ctypes.c_int(0)
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(found))
    except (OSError, AttributeError):
        return 99
    return 99 if failed else found.value // 1000


@cache
def processors(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def bind(signature: Signature, inputs: dict[str, Any]) -> dict[str, int]:
    """The sizes of the symbols from the inputs' shapes. Raises LaunchError where they contradict each other."""
    sizes: dict[str, int] = {}
    for name in signature.inputs:
        if name not in inputs:
            raise LaunchError(f"the input {name} {signature.tensors[name].text} is missing; pass it")
        spec, value = signature.tensors[name], inputs[name]
        if spec.dtype == "float":
            if isinstance(value, torch.Tensor) or not isinstance(value, int | float):
                raise LaunchError(f"{name} is {type(value).__name__}, and a Python float is wanted; pass a number")
            continue
        if not isinstance(value, torch.Tensor):
            raise LaunchError(f"{name} is {type(value).__name__}, and a tensor {spec.text} is wanted; pass one")
        if value.dim() != len(spec.shape):
            raise LaunchError(f"{name} has shape {list(value.shape)}, and {spec.text} is wanted; reshape it")
        for size, (coefficient, symbol) in zip(value.shape, spec.shape, strict=True):
            if symbol is None:
                if size != coefficient:
                    raise LaunchError(f"{name} has shape {list(value.shape)}, and {spec.text} is wanted; reshape it")
            elif size % coefficient:
                raise LaunchError(
                    f"{name} has shape {list(value.shape)}, whose {coefficient}{symbol} is no multiple of {coefficient}"
                )
            elif sizes.setdefault(symbol, size // coefficient) != size // coefficient:
                raise LaunchError(
                    f"{name} has shape {list(value.shape)}, and with {symbol} = {sizes[symbol]} from the inputs before "
                    f"it {spec.text} is [{_extent(spec, sizes)}]; make the shapes agree"
                )
    return sizes


def _extent(spec: TensorSpec, sizes: dict[str, int]) -> str:
    """A shape in numbers, as far as the symbols are known."""
    parts = (str(c * sizes[s]) if s in sizes else f"{c if c != 1 or s is None else ''}{s or ''}" for c, s in spec.shape)
    return ", ".join(parts)


def refuse(signature: Signature, inputs: dict[str, Any]) -> str | None:
    """Why these inputs are outside the kernel's domain, in one sentence; None if they are inside."""
    try:
        sizes = bind(signature, inputs)
    except LaunchError as error:
        return str(error)
    device = None
    for name in signature.inputs:
        spec, value = signature.tensors[name], inputs[name]
        if spec.dtype == "float":
            continue
        if not value.is_cuda:
            return f"{name} is on {value.device}, and the kernel runs on a CUDA device; move it there"
        if device is not None and value.device != device:
            return f"{name} is on {value.device} and others on {device}; move them to one device"
        device = value.device
        if value.dtype != TORCH_DTYPES[spec.dtype]:
            return f"{name} is {value.dtype}, and {TORCH_DTYPES[spec.dtype]} is wanted; convert it"
        reason = _misaligned(name, spec, value)
        if reason:
            return reason
    for name in signature.outputs:
        spec = signature.tensors[name]
        extent = spec.size(sizes)
        if any(e == 0 for e in extent):
            return f"the output {name} {spec.text} would be empty; the kernel needs at least one row and one column"
        if len(extent) == 2 and extent[1] * TORCH_DTYPES[spec.dtype].itemsize % ALIGNMENT:
            return (
                f"the output {name} would be {extent[1]} wide, and rows of {spec.dtype} must be a multiple of "
                f"{ALIGNMENT // TORCH_DTYPES[spec.dtype].itemsize} elements; pad it"
            )
    if any(s == 0 for s in sizes.values()):
        empty = next(k for k, s in sizes.items() if s == 0)
        return f"the dimension {empty} is 0; the kernel needs at least one"
    return None


def _misaligned(name: str, spec: TensorSpec, value: torch.Tensor) -> str | None:
    if value.numel() and not value.is_contiguous():
        return f"{name} is not contiguous (strides {list(value.stride())}); call .contiguous()"
    if len(spec.shape) == 2:
        multiple = ALIGNMENT // value.element_size()
        if value.shape[1] % multiple:
            return (
                f"{name} is {value.shape[1]} wide, and that must be a multiple of {multiple} for {spec.dtype}; pad it"
            )
        if value.data_ptr() % ALIGNMENT:
            return f"{name} starts at an address that is no multiple of {ALIGNMENT} bytes; copy it to fresh memory"
        return None
    step = 4 * value.element_size()
    if len(spec.shape) == 1 and value.data_ptr() % step:
        return f"{name} starts at an address that is no multiple of {step} bytes; copy it to fresh memory"
    return None


def product_shape(signature: Signature, inputs: dict[str, Any]) -> tuple[int, int]:
    """Rows and columns of the accumulator."""
    a, b = inputs[signature.a], inputs[signature.b]
    return a.shape[1 if signature.a_transposed else 0], b.shape[0 if signature.b_transposed else 1]


def workspace_shapes(signature: Signature, m: int, n: int) -> dict[str, tuple[int, int]]:
    """By field, the shape of each reduction's partials for an M x N accumulator."""
    tiles_m, tiles_n = -(-m // signature.schedule.tile_m), -(-n // signature.schedule.tile_n)
    return {
        s.field: (m, tiles_n) if s.direction == "row" else (tiles_m, n) for s in signature.sinks if s.join != "select"
    }


class Kernel:
    """A linked object and how to call it."""

    def __init__(self, path: Path, signature: Signature):
        """Load the object. Raises OSError where it cannot be loaded, AttributeError where it is another kernel's."""
        import tvm_ffi

        _runtime()
        self.signature = signature
        self._module = tvm_ffi.load_module(str(path))
        self.gemm = self._module[signature.symbol]
        self._joins = {a.field: self._module[signature.join_symbol(a)] for a in signature.sinks if a.join != "select"}
        by_field = {a.field: a for a in signature.arguments}
        self.places = tuple(_place(by_field.get(field)) for field in signature.fields)
        self.joined = tuple((self._joins[a.field], a.field, a.name) for a in signature.sinks if a.join != "select")
        self._a, self._b, self._c, self._d = signature.a, signature.b, signature.c, signature.d
        self._a_transposed = signature.a_transposed
        self._schedulers: dict[int, tuple] = {}

    def outputs_like(self, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Fresh outputs for these inputs; an accumulated output is the input of the same name."""
        sizes = bind(self.signature, inputs)
        device = inputs[self.signature.a].device
        return {
            name: inputs[name]
            if name in self.signature.accumulates
            else torch.empty(spec.size(sizes), dtype=TORCH_DTYPES[spec.dtype], device=device)
            for name in self.signature.outputs
            for spec in (self.signature.tensors[name],)
        }

    def workspace(self, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Buffers for the partials of reductions, float32."""
        if not self._joins:
            return {}
        device = inputs[self.signature.a].device
        shapes = workspace_shapes(self.signature, *product_shape(self.signature, inputs))
        return {field: torch.empty(shape, dtype=torch.float32, device=device) for field, shape in shapes.items()}

    def __call__(
        self, inputs: dict[str, Any], outputs: dict[str, torch.Tensor], workspace: dict[str, torch.Tensor] | None = None
    ) -> None:
        """Launch on the current stream. Inputs and outputs must be inside the domain (see `refuse`)."""
        a = inputs[self._a]
        if torch.cuda.current_device() != a.device.index:
            with torch.cuda.device(a.device):
                return self(inputs, outputs, workspace)
        if workspace is None:
            workspace = self.workspace(inputs) if self.joined else _NOTHING
        sources = (inputs, outputs, workspace)
        values = tuple(
            None if source is None else sources[source][name] if not expand else sources[source][name][None]
            for source, name, expand in self.places
        )
        self.gemm(
            a.t() if self._a_transposed else a,
            inputs[self._b],
            outputs[self._d] if self._d else None,
            inputs[self._c] if self._c else None,
            values,
            self.scheduler(a.device.index),
            None,
            None,
            None,
        )
        for join, field, name in self.joined:
            join(workspace[field], outputs[name])
        return None

    def scheduler(self, device: int) -> tuple:
        scheduler = self._schedulers.get(device)
        if scheduler is None:
            clusters = processors(device) // self.signature.schedule.cluster
            scheduler = (clusters, None, self.signature.schedule.swizzle, None, None, None)
            self._schedulers[device] = scheduler
        return scheduler

    def bound(self, inputs: dict[str, Any]) -> Launch:
        """A launch for all inputs of these shapes, dtypes and device, with everything looked up beforehand."""
        from .bound import bound

        return bound(self, inputs)


_NOTHING: dict[str, torch.Tensor] = {}


def _place(argument: Argument | None) -> tuple[int | None, str, bool]:
    """Where a field's value comes from (0 inputs, 1 outputs, 2 workspace), its name, and whether it gains a batch."""
    if argument is None or argument.role == "constant":
        return None, "", False
    if argument.role in ("row", "col", "index"):
        return 0, argument.name, True
    if argument.role in ("tile", "scalar"):
        return 0, argument.name, False
    if argument.role == "store" or argument.join == "select":
        return 1, argument.name, False
    return 2, argument.field, False
