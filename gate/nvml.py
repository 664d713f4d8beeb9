"""What the GPU is doing: clocks, power, temperature, why it is held back, and who else computes on it.

Read through NVML (package nvidia-ml-py).  Where the library or the driver is absent there is one sentence
instead, and nothing else changes.
"""

from __future__ import annotations

import os
import statistics
from functools import cache
from typing import Any

REASONS = {
    0x0000000000000001: "idle",
    0x0000000000000002: "clocks set by an application",
    0x0000000000000004: "power limit",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000010: "sync boost",
    0x0000000000000020: "temperature, by software",
    0x0000000000000040: "temperature, by hardware",
    0x0000000000000080: "power brake",
    0x0000000000000100: "display clocks",
}
HELD_BACK = frozenset({"hardware slowdown", "temperature, by hardware", "power brake"})
"""Reasons under which figures of one session say little about another's."""


@cache
def _device() -> Any:
    """The library and the first visible GPU's handle, or why there is none."""
    try:
        import pynvml
    except ImportError:
        return "the package nvidia-ml-py is not installed, so clocks and power are not known"
    try:
        pynvml.nvmlInit()
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
        if first.startswith(("GPU-", "MIG-")):
            return pynvml, pynvml.nvmlDeviceGetHandleByUUID(first)
        return pynvml, pynvml.nvmlDeviceGetHandleByIndex(int(first) if first.isdigit() else 0)
    except Exception as error:  # NVMLError and OSError, by what is missing
        return f"NVML does not answer ({error}), so clocks and power are not known"


def missing() -> str:
    """Why nothing can be read here; empty where it can."""
    found = _device()
    return found if isinstance(found, str) else ""


def state() -> dict[str, Any]:
    """Clocks (MHz), power and its limit (W), temperature (C), reasons for which clocks are held back; or `missing`."""
    found = _device()
    if isinstance(found, str):
        return {"missing": found}
    nvml, device = found
    reads = {
        "sm_clock": lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM),
        "memory_clock": lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM),
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(device) / 1000,
        "power_limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(device) / 1000,
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU),
        "held_back_by": lambda: reasons(_bits(nvml, device)),
    }
    result: dict[str, Any] = {}
    for name, read in reads.items():
        try:
            result[name] = read()
        except Exception:  # some boards and virtual machines do not tell everything
            result[name] = None
    return result


def _bits(nvml: Any, device: Any) -> int:
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        if hasattr(nvml, name):
            return int(getattr(nvml, name)(device))
    return 0


def reasons(bits: int) -> list[str]:
    """The words for NVML's bits; idle is no reason."""
    known = [word for bit, word in REASONS.items() if bits & bit and word != "idle"]
    rest = bits & ~sum(REASONS)
    return known + ([f"reason {rest:#x}"] if rest else [])


def others(own: set[int]) -> list[int]:
    """Processes that compute on the GPU beside `own`; empty where NVML does not tell."""
    found = _device()
    if isinstance(found, str):
        return []
    nvml, device = found
    try:
        return sorted({p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(device)} - own)
    except Exception:
        return []


class Watch:
    """Samples taken while something is timed, and what they come to."""

    def __init__(self) -> None:
        self.samples: list[dict[str, Any]] = []

    def look(self) -> None:
        if not missing():
            self.samples.append(state())

    def summary(self) -> dict[str, Any]:
        """Median and extremes of the SM clock and power, the highest temperature, all reasons seen."""
        if not self.samples:
            return {"missing": missing() or "no sample was taken"}
        result: dict[str, Any] = {"samples": len(self.samples)}
        for name in ("sm_clock", "power"):
            values = [s[name] for s in self.samples if s[name] is not None]
            if values:
                result[name] = {"median": statistics.median(values), "least": min(values), "most": max(values)}
        temperatures = [s["temperature"] for s in self.samples if s["temperature"] is not None]
        if temperatures:
            result["temperature"] = max(temperatures)
        limits = [s["power_limit"] for s in self.samples if s["power_limit"] is not None]
        if limits:
            result["power_limit"] = limits[-1]
        result["held_back_by"] = sorted({r for s in self.samples for r in s["held_back_by"] or []})
        return result
