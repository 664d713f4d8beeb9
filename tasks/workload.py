"""A workload: one binding of a task's symbols, with a storage dtype, an input family and a seed."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Family = Literal["normal", "large", "tiny", "sparse", "outliers", "integers", "mixed"]
FAMILIES: tuple[Family, ...] = ("normal", "large", "tiny", "sparse", "outliers", "integers", "mixed")


class Workload(BaseModel):
    """One problem instance, drawn when it is run."""

    model_config = ConfigDict(frozen=True)

    sizes: dict[str, int]
    storage: Literal["bf16", "fp16", "fp8"] = "bf16"
    family: Family = "normal"
    seed: int = 0

    @property
    def label(self) -> str:
        """Such as "M8192 F14336 K4096 bf16"."""
        return " ".join(f"{k}{v}" for k, v in self.sizes.items()) + f" {self.storage}"
