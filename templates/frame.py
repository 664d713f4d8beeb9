"""What the template must know of a task."""

from __future__ import annotations

from dataclasses import dataclass

from . import ABI
from .schedule import Schedule
from .signature import Signature, TensorSpec


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
