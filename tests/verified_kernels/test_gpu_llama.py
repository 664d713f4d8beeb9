"""On a Hopper GPU: Llama blocks, QK-norm attention and the loss on their kernels."""

from pathlib import Path

import pytest
import torch
from codasmith.verified_kernels import FallbackWarning, store
from codasmith.verified_kernels.modules import LinearCrossEntropy, LlamaBlock, LlamaLayers, LlamaShape, QKNormRoPE
from torch import nn
from torch.nn.functional import cross_entropy, rms_norm, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)), reason="needs a Hopper GPU"
    ),
]
SHIPPED = Path(store.__file__).parent / "kernels"
SHAPE = LlamaShape(512, 1024, 4, 2, 128)
TOKENS = 200


@pytest.fixture(autouse=True)
def shipped(homes, monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)


@pytest.fixture
def on_kernels(recwarn):
    """Fails where some kernel of those that were admitted did not run; names those that were not admitted yet."""
    yield
    said = [str(w.message) for w in recwarn if issubclass(w.category, FallbackWarning)]
    assert [s for s in said if "no admitted kernel answers" not in s] == []
    if said:
        print("by its reference:", *said, sep="\n")


def angles(x):
    turns = torch.outer(torch.arange(TOKENS), 10000.0 ** -torch.linspace(0, 1, 64)).repeat(1, 2)
    return turns.cos().to(x), turns.sin().to(x)


def turned(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def plain(state, x, cos, sin, prefix):
    """A Llama layer of these weights in x's dtype."""
    w = {k.removeprefix(prefix): v.to(x.dtype) for k, v in state.items() if k.startswith(prefix)}
    h = rms_norm(x, x.shape[-1:], w["input_layernorm.weight"], 1e-6)
    q, k, v = (h @ w[f"self_attn.{n}_proj.weight"].T for n in "qkv")
    q, k, v = (t.unflatten(-1, (-1, 128)).transpose(1, 2) for t in (q, k, v))
    o = scaled_dot_product_attention(turned(q, cos, sin), turned(k, cos, sin), v, is_causal=True, enable_gqa=True)
    x = x + o.transpose(1, 2).flatten(-2) @ w["self_attn.o_proj.weight"].T
    h = rms_norm(x, x.shape[-1:], w["post_attention_layernorm.weight"], 1e-6)
    gated = silu(h @ w["mlp.gate_proj.weight"].T) * (h @ w["mlp.up_proj.weight"].T)
    return x + gated @ w["mlp.down_proj.weight"].T


def stack():
    torch.manual_seed(0)
    layers = LlamaLayers(LlamaBlock(SHAPE, i, device="cuda", dtype=torch.bfloat16) for i in range(3))
    for name, weight in layers.named_parameters():
        if "norm" in name:
            nn.init.uniform_(weight, 0.5, 1.5)
    return layers, torch.randn(2, TOKENS, 512, device="cuda", dtype=torch.bfloat16)


def graded(function, state, x):
    """The output and gradients of x and all weights, for weights in x's dtype."""
    leaves = {k: v.detach().to(x.dtype).requires_grad_() for k, v in state.items()}
    x = x.clone().requires_grad_()
    y = function(leaves, x)
    y.float().square().mean().backward()
    return {"y": y.detach(), "x": x.grad, **{k: v.grad for k, v in leaves.items()}}


def within(ours, plain16, truth, name):
    """As far from the float64 truth as the unfused path, twice over, plus a rounding."""
    error = (ours.double() - truth).norm() / truth.norm()
    allowed = 2 * (plain16.double() - truth).norm() / truth.norm() + 2**-8
    assert error <= allowed, f"{name}: {error:.2e} over {allowed:.2e}"


def alike(ours, theirs):
    """Up to what the backward of attention differs from run to run."""
    torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2 * theirs.abs().max().item())


def test_a_stack_is_as_right_as_plain_layers_forward_and_backward(on_kernels):
    layers, x = stack()
    state = layers.state_dict()

    def theirs(weights, v):
        for i in range(3):
            v = plain(weights, v, *angles(v), f"{i}.")
        return v

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        truth = graded(theirs, state, x.double())
    unfused = graded(theirs, state, x)
    v = x.clone().requires_grad_()
    y = layers(v, *angles(x))
    y.float().square().mean().backward()
    for weight in layers.parameters():
        weight.data = weight.grad
    found = {"y": y.detach(), "x": v.grad, **layers.state_dict()}
    for name, value in truth.items():
        within(found[name], unfused[name], value, name)


def test_checkpointing_and_autocast_on_kernels(on_kernels):
    layers, x = stack()
    layers(x, *angles(x)).float().square().mean().backward()
    first = {n: w.grad.clone() for n, w in layers.named_parameters()}
    layers.zero_grad()
    checkpoint(layers, x, *angles(x), use_reentrant=False).float().square().mean().backward()
    for name, weight in layers.named_parameters():
        alike(weight.grad, first[name])
    layers.float().zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        layers(x.float(), *angles(x)).float().square().mean().backward()
    assert all(w.grad.dtype == torch.float32 for w in layers.parameters())


def test_a_step_of_a_stack_is_captured_in_a_graph(on_kernels):
    layers, x = stack()
    turns = angles(x)

    def step():
        layers.zero_grad(set_to_none=False)
        layers(x, *turns).float().square().mean().backward()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    x.copy_(torch.randn_like(x))
    graph.replay()
    replayed = [w.grad.clone() for w in layers.parameters()]
    step()
    for weight, grad in zip(layers.parameters(), replayed, strict=True):
        alike(weight.grad, grad)


def test_qknorm_rope_is_as_right_as_plain(on_kernels):
    torch.manual_seed(0)
    module = QKNormRoPE(SHAPE, device="cuda", dtype=torch.bfloat16)
    nn.init.uniform_(module.q_gamma, 0.5, 1.5)
    state, x = module.state_dict(), torch.randn(2, TOKENS, 512, device="cuda", dtype=torch.bfloat16)

    def theirs(w, v):
        parts = []
        for n in "qk":
            z = rms_norm((v @ w[f"{n}_proj.weight"].T).unflatten(-1, (-1, 128)), (128,), w[f"{n}_norm.weight"], 1e-6)
            z = turned(z.transpose(1, 2), *angles(v)).transpose(1, 2)
            parts.append(torch.stack(z.chunk(2, -1), -1).flatten(-2).flatten(-2))
        return torch.cat(parts, -1)

    truth, unfused = graded(theirs, state, x.double()), graded(theirs, state, x)
    v = x.clone().requires_grad_()
    q, k = module(v, *angles(x))
    y = torch.cat((q.flatten(-2), k.flatten(-2)), -1)
    y.float().square().mean().backward()
    for weight in module.parameters():
        weight.data = weight.grad
    found = {"y": y.detach(), "x": v.grad, **module.state_dict()}
    for name, value in truth.items():
        within(found[name], unfused[name], value, name)


def test_the_loss_is_as_right_as_plain(on_kernels):
    torch.manual_seed(0)
    module = LinearCrossEntropy(512, 1024, device="cuda", dtype=torch.bfloat16)
    x, target = torch.randn(1000, 512, device="cuda", dtype=torch.bfloat16), torch.randint(0, 1024, (1000,)).cuda()
    target[::7] = -100
    found = []
    for dtype in (torch.float64, torch.bfloat16, None):
        v = x.to(dtype or x.dtype).requires_grad_()
        w = module.weight if dtype is None else module.weight.detach().to(dtype).requires_grad_()
        value = module(v, target) if dtype is None else cross_entropy((v @ w.T).to(max_wide(dtype)), target)
        value.backward()
        found.append((value.detach(), v.grad, w.grad))
    for name, truth, unfused, ours in zip(("loss", "x", "weight"), *found, strict=True):
        within(ours, unfused, truth, name)


def max_wide(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32
