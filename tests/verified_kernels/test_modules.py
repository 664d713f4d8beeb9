"""Modules: the values, gradients and state dicts of their plain PyTorch counterparts."""

import copy
from pathlib import Path

import pytest
import torch
from codasmith.verified_kernels import store
from codasmith.verified_kernels.modules import GELUMLP, RMSNormSwiGLUMLP, SwiGLUMLP
from torch import nn
from torch.nn.functional import gelu, silu

pytestmark = pytest.mark.filterwarnings("ignore:.*runs its unfused reference")
K, F = 16, 24


class PlainSwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(K, F, bias=False), nn.Linear(K, F, bias=False)
        self.down_proj = nn.Linear(F, K, bias=False)

    def forward(self, x):
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class PlainNormed(PlainSwiGLU):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(K, eps=1e-5)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)

    def forward(self, x):
        return super().forward(self.norm(x))


class PlainGELU(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(K, F), nn.Linear(F, K)

    def forward(self, x):
        return self.fc2(gelu(self.fc1(x)))


PAIRS = {
    "swiglu": (PlainSwiGLU, lambda: SwiGLUMLP(K, F)),
    "rmsnorm_swiglu": (PlainNormed, lambda: RMSNormSwiGLUMLP(K, F, eps=1e-5)),
    "gelu": (PlainGELU, lambda: GELUMLP(K, F)),
}


@pytest.fixture(params=PAIRS)
def pair(request):
    torch.manual_seed(0)
    plain, ours = (make() for make in PAIRS[request.param])
    ours.load_state_dict(plain.state_dict())
    return plain, ours


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("shape", [(5, K), (2, 3, K), (K,)])
def test_values_and_gradients_are_those_of_plain_pytorch(pair, dtype, tolerance, shape):
    plain, ours = (m.to(dtype) for m in pair)
    inputs = torch.randn(shape, dtype=dtype)
    found = []
    for module in (plain, ours):
        x = inputs.clone().requires_grad_()
        y = module(x)
        assert y.shape == x.shape and y.dtype == dtype
        y.float().square().sum().backward()
        weights = dict(module.named_parameters())
        if "gate_proj.weight" in weights:
            halves = [weights.pop(f"{n}_proj.weight").grad for n in ("gate", "up")]
            joined = torch.cat(halves)
        else:
            joined = weights.pop("gate_up_weight").grad if "gate_up_weight" in weights else None
        found.append([y, x.grad, *(weights[n].grad for n in sorted(weights)), *([] if joined is None else [joined])])
    assert len(found[0]) == len(found[1]) > 3
    for theirs, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance * theirs.abs().max().item())


def test_state_dicts_go_both_ways_bit_for_bit(pair):
    plain, ours = pair
    state = ours.state_dict()
    assert set(state) == set(plain.state_dict())
    assert all(torch.equal(state[name], value) for name, value in plain.state_dict().items())
    other = copy.deepcopy(plain)
    for value in other.parameters():
        nn.init.zeros_(value)
    other.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(other.parameters(), plain.parameters(), strict=True))


def test_inside_a_model_keys_carry_their_prefix(pair):
    plain, ours = (nn.ModuleDict({"mlp": m}) for m in pair)
    assert set(ours.state_dict()) == set(plain.state_dict())
    ours.load_state_dict({k: torch.ones_like(v) for k, v in plain.state_dict().items()}, assign=True)
    assert all(bool((p == 1).all()) for p in ours.parameters())


def test_a_missing_half_is_an_error():
    state = PlainSwiGLU().state_dict()
    del state["up_proj.weight"]
    with pytest.raises(RuntimeError, match="gate_up_weight"):
        SwiGLUMLP(K, F).load_state_dict(state)


def test_a_copied_module_computes_the_same(pair):
    _, ours = pair
    x = torch.randn(3, K)
    assert torch.equal(copy.deepcopy(ours)(x), ours(x))


def test_many_layers_load_an_operator_once():
    first, second = SwiGLUMLP(K, F), SwiGLUMLP(K, F)
    assert first._operator is second._operator


@pytest.mark.parametrize("which", ["swiglu", "rmsnorm_swiglu"])
def test_where_gradients_are_wanted_and_kernels_are_there_the_program_takes_over(monkeypatch, which):
    """On the shipped kernels' records; on a CPU the program and its twin answer by their references."""
    monkeypatch.setattr(store, "SHIPPED", Path(store.__file__).parent / "kernels")
    torch.manual_seed(0)
    plain, ours = (make().bfloat16() for make in PAIRS[which])
    ours.load_state_dict(plain.state_dict())
    called = []
    real = type(ours._program).__call__
    monkeypatch.setattr(
        type(ours._program), "__call__", lambda self, *a, **k: called.append(self.__name__) or real(self, *a, **k)
    )
    x = torch.randn(6, K).bfloat16()
    with torch.no_grad():
        quiet = ours(x)
    assert called == [ours._operator.__name__] and called.clear() is None
    found = []
    for module in (ours, plain):
        v = x.clone().requires_grad_()
        y = module(v)
        y.float().square().sum().backward()
        state = {n: p.grad for n, p in module.named_parameters()}
        joined = state.pop("gate_up_weight", None)
        state["gate_up"] = (
            torch.cat([state.pop(f"{n}_proj.weight") for n in ("gate", "up")]) if joined is None else joined
        )
        found.append({"y": y.detach(), "x": v.grad, **state})
    assert called == ["mlp_swiglu", "mlp_swiglu_bwd"]
    for name, theirs in found[1].items():
        torch.testing.assert_close(found[0][name], theirs, rtol=3e-2, atol=3e-2 * theirs.abs().max().item(), msg=name)
    torch.testing.assert_close(quiet, found[0]["y"], rtol=3e-2, atol=3e-2)
    ours.half()  # no kernel of the program was admitted for fp16
    called.clear()
    ours(x.half()).sum().backward()
    assert called == [ours._operator.__name__]
    ours.bfloat16()
    step = torch.compile(ours, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(step(x.requires_grad_()), ours(x))
