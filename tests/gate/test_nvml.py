"""What NVML says, by a library that says what it is told; and one sentence where there is none."""

from __future__ import annotations

import sys
import types

import pytest
from codasmith.gate import nvml


class FakeError(Exception):
    pass


def library(**changes):
    board = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByIndex": lambda index: f"board {index}",
        "nvmlDeviceGetHandleByUUID": lambda uuid: f"board {uuid}",
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlDeviceGetClockInfo": lambda _, which: {1: 1830, 2: 3201}[which],
        "nvmlDeviceGetPowerUsage": lambda _: 668_600,
        "nvmlDeviceGetEnforcedPowerLimit": lambda _: 700_000,
        "nvmlDeviceGetTemperature": lambda *_: 51,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _: 0x5,
        "nvmlDeviceGetComputeRunningProcesses": lambda _: [types.SimpleNamespace(pid=p) for p in (11, 12, 99)],
    }
    return types.SimpleNamespace(**(board | changes))


@pytest.fixture
def board(monkeypatch):
    def use(found):
        monkeypatch.setitem(sys.modules, "pynvml", found)
        nvml._device.cache_clear()

    yield use
    nvml._device.cache_clear()


def test_clocks_power_temperature_and_reasons_are_read(board):
    board(library())
    assert nvml.state() == {
        **{"sm_clock": 1830, "memory_clock": 3201, "power": 668.6, "power_limit": 700.0, "temperature": 51},
        "held_back_by": ["power limit"],
    }
    assert nvml.missing() == ""
    assert nvml.others({11, 12}) == [99]


@pytest.mark.parametrize(("visible", "handle"), [("3,4", "board 3"), ("GPU-ab", "board GPU-ab"), ("", "board 0")])
def test_the_first_visible_gpu_is_asked(board, monkeypatch, visible, handle):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    board(library())
    assert nvml._device()[1] == handle


def test_without_the_package_there_is_a_sentence(board):
    board(None)  # what the import system takes for "not there"
    assert "nvidia-ml-py is not installed" in nvml.state()["missing"]
    watch = nvml.Watch()
    watch.look()
    assert "not installed" in watch.summary()["missing"] and nvml.others(set()) == []


def test_without_a_driver_there_is_a_sentence(board):
    def refuses():
        raise FakeError("Driver Not Loaded")

    board(library(nvmlInit=refuses))
    assert "Driver Not Loaded" in nvml.missing()


def test_what_a_board_does_not_tell_is_none_and_the_rest_is_there(board):
    def refuses(*_):
        raise FakeError("Not Supported")

    board(library(nvmlDeviceGetPowerUsage=refuses, nvmlDeviceGetComputeRunningProcesses=refuses))
    watch = nvml.Watch()
    watch.look()
    summary = watch.summary()
    assert nvml.state()["power"] is None and "power" not in summary and nvml.others(set()) == []
    assert summary["sm_clock"] == {"median": 1830, "least": 1830, "most": 1830}


def test_unknown_reasons_are_said_by_number():
    assert nvml.reasons(0x80 | 0x1000) == ["power brake", "reason 0x1000"]
    assert nvml.reasons(1) == []
