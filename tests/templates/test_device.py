"""The device side of primitives, run in float32 on torch with the errors of the GPU's units put in at their worst."""

from __future__ import annotations

import types

import pytest
import torch
from codasmith.primitives import REGISTRY
from codasmith.templates import device

UNIT = 2.0**-22
"""Relative error of the approximate exponential and reciprocal. (Of the tanh unit no such bound says enough: what uses
it depends on its being exactly 1 far out.)"""


@pytest.fixture(params=[1.0, -1.0])
def units(monkeypatch, request):
    """Every unit errs as much as it may, all one way, and subnormal results are 0."""

    def unit(function, error):
        def approximate(x, **_):
            y = (function(x.double()) * (1 + request.param * error)).float()
            return torch.where(y.abs() < torch.finfo(torch.float32).smallest_normal, y * 0, y)

        return approximate

    def larger(a, b, **_):
        return torch.maximum(a, b)

    arch = types.SimpleNamespace(
        rcp_approx=unit(torch.reciprocal, UNIT), fmax=larger, fmin=lambda a, b, **_: torch.minimum(a, b)
    )
    maths = types.SimpleNamespace(abs=torch.abs, exp2=unit(torch.exp2, UNIT))
    monkeypatch.setattr(device, "cute", types.SimpleNamespace(arch=arch, math=maths))
    monkeypatch.setattr(device, "cutlass", types.SimpleNamespace(select_=torch.where))
    monkeypatch.setattr(device, "Float32", lambda x: torch.as_tensor(x, dtype=torch.float32))


BOUNDS = {
    "sigmoid": 1e-6,
    "silu": 1e-6,
    "gelu": 4.5e-6,
    "softplus": 2.5e-6,
    "sigmoid_grad": 1e-6,
    "silu_grad": 1e-5,
    "gelu_grad": 2e-6,
    "tanh_grad": 4e-6,
}
"""Largest error, as a share of the larger of 1 and the value."""


@pytest.mark.parametrize("name", BOUNDS)
def test_a_lowering_agrees_with_the_primitive_near_and_far(units, name):
    far = [] if name == "silu_grad" else [-6e4, 6e4, -1e30]  # it multiplies by 1 - 1 there
    x = torch.cat([torch.linspace(-30, 30, 60001), torch.linspace(-1e-2, 1e-2, 2001), torch.tensor(far)])
    truth = REGISTRY[name].torch(x.double())
    error = (getattr(device, name)(x).double() - truth).abs() / truth.abs().clamp_min(1)
    assert float(error.max()) < BOUNDS[name], float(x[error.argmax()])


@pytest.mark.parametrize("name", ["silu", "gelu", "sigmoid", "softplus", "gelu_grad", "silu_grad"])
def test_a_lowering_keeps_its_relative_accuracy_around_zero(units, name):
    x = torch.linspace(-1e-3, 1e-3, 2001)
    truth = REGISTRY[name].torch(x.double())
    error = (getattr(device, name)(x).double() - truth).abs()
    assert bool((error <= 2e-6 * truth.abs()).all())


@pytest.mark.parametrize("name", ["softplus", "sigmoid", "sigmoid_grad"])
def test_what_falls_off_exponentially_keeps_its_relative_accuracy_there(units, name):
    x = torch.linspace(-80, -1, 20001)
    truth = REGISTRY[name].torch(x.double())
    error = (getattr(device, name)(x).double() - truth).abs() / truth
    assert float(error.max()) < 1e-5  # an argument of 80 is itself known to 2^-24 of 115 binary digits


@pytest.mark.parametrize("name", ["gelu", "gelu_grad", "silu", "softplus", "sigmoid"])
def test_infinities_and_nan_stand_where_torch_has_them(units, name):
    x = torch.tensor([torch.inf, -torch.inf, torch.nan])
    truth = REGISTRY[name].torch(x.double()).float()
    torch.testing.assert_close(getattr(device, name)(x), truth, equal_nan=True)
