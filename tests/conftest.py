"""Tests marked `gpu` need a Hopper GPU, and are skipped where there is none."""

import pytest


def pytest_collection_modifyitems(items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _hopper():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a Hopper GPU (compute capability 9.0)"))


def _hopper() -> bool:
    import torch

    return torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
