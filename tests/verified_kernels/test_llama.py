"""Llama blocks, QK-norm with rotary embedding: values, gradients and state dicts of plain PyTorch."""

import importlib.util
from pathlib import Path

import pytest
import torch
from codasmith.verified_kernels import InputError
from codasmith.verified_kernels.modules import (
    LlamaBlock,
    LlamaLayers,
    LlamaShape,
    QKNormRoPE,
    RMSNormSwiGLUMLP,
    rows,
)
from codasmith.verified_kernels.modules.rotary import from_pairs, to_pairs
from torch import nn
from torch.nn.functional import rms_norm
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:.*runs its unfused reference")
DECODER = Path(__file__).parents[2] / "benchmarks/decoder.py"
SHAPES = {
    "as many keys": LlamaShape(32, 48, 4, 4, 8, 1e-5),
    "fewer keys": LlamaShape(32, 48, 4, 2, 8, 1e-5),
}


@pytest.fixture(scope="session")
def plain():
    spec = importlib.util.spec_from_file_location("plain_decoder", DECODER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pair(plain):
    def make(shape, layers=3):
        torch.manual_seed(0)
        theirs = nn.ModuleList(plain.Layer(shape) for _ in range(layers))
        for weight in theirs.parameters():
            if weight.dim() == 1:
                nn.init.uniform_(weight, 0.5, 1.5)
        ours = LlamaLayers(LlamaBlock(shape, i) for i in range(layers))
        ours.load_state_dict(theirs.state_dict())
        x = torch.randn(2, 6, shape.hidden_size)
        return theirs, ours, x, plain.angles(6, shape.head_dim, x)

    return make


def run(layers, x, angles):
    for layer in layers:
        x = layer(x, *angles)
    return x


def gradients(module, x, function):
    """The output, and the gradients of x and of every weight by its name in a checkpoint."""
    x = x.clone().requires_grad_()
    for weight in module.parameters():
        weight.grad = None
    y = function(x)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y))
    values = {name: weight.data for name, weight in module.named_parameters()}
    for weight in module.parameters():
        weight.data = weight.grad
    found = {name: value.clone() for name, value in module.state_dict().items()}
    for name, weight in module.named_parameters():
        weight.data = values[name]
    return y.detach(), x.grad, found


def close(ours, theirs, tolerance=2e-5):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance * theirs.abs().max().item())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_stack_has_the_values_and_gradients_of_plain_layers(pair, shape):
    theirs, ours, x, angles = pair(shape)
    y, grad_x, grads = gradients(theirs, x, lambda v: run(theirs, v, angles))
    mine, mine_x, mine_grads = gradients(ours, x, lambda v: run(ours, v, angles))
    close(mine, y)
    close(mine_x, grad_x)
    assert set(mine_grads) == set(grads) and len(grads) == 3 * 9
    for name, value in grads.items():
        close(mine_grads[name], value)
    with torch.no_grad():
        close(run(ours, x, angles), y)
        close(run([ours.get_submodule(str(i)) for i in range(3)], x, angles), y)  # block by block


def test_only_what_may_learn_gets_a_gradient(pair):
    theirs, ours, x, angles = pair(SHAPES["fewer keys"])
    for layers in (theirs, ours):
        for name, weight in layers.named_parameters():
            weight.requires_grad_(name.startswith("1.") and ("mlp" in name or "post" in name))
    run(ours, x, angles).square().sum().backward()
    run(theirs, x, angles).square().sum().backward()
    assert {n for n, w in ours.named_parameters() if w.grad is not None} == {
        n for n, w in ours.named_parameters() if w.requires_grad
    }
    close(ours.get_submodule("1").mlp.down_proj.weight.grad, theirs[1].mlp.down_proj.weight.grad)


def test_a_checkpoint_goes_both_ways_bit_for_bit(pair):
    theirs, ours, *_ = pair(SHAPES["fewer keys"])
    state = ours.state_dict()
    assert set(state) == set(theirs.state_dict())
    assert all(torch.equal(state[name], value) for name, value in theirs.state_dict().items())
    del state["1.self_attn.k_proj.weight"]
    with pytest.raises(RuntimeError, match=r"1\.self_attn\.qkv_weight"):
        ours.load_state_dict(state)


def test_a_stack_is_printed_walked_through_and_cut_like_a_list_of_layers(pair):
    _, layers, _, _ = pair(SHAPES["fewer keys"])
    assert repr(layers).count("LlamaBlock(") == 3 and len(layers) == 3
    assert list(layers) == [layers] and layers[:3] is layers
    assert layers[-1] is layers.blocks[2] and layers[:2].blocks == layers.blocks[:2]
    assert not isinstance(layers, nn.ModuleList)  # fully_shard of torch 2.11 refuses one, whatever it can do


def test_a_mask_is_obeyed(pair):
    theirs, ours, x, angles = pair(SHAPES["fewer keys"])
    expected = run(theirs, x, angles)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()[None, None].expand(2, 1, -1, -1)
    close(ours(x, position_embeddings=angles, attention_mask=mask), expected)
    full = ours(x, position_embeddings=angles, attention_mask=torch.ones_like(mask))
    assert (full - expected).abs().max() > 0.01


def test_activation_checkpointing_gives_the_same_gradients(pair):
    _, ours, x, angles = pair(SHAPES["as many keys"])
    _, grad_x, grads = gradients(ours, x, lambda v: run(ours, v, angles))

    def again(v):
        for block in ours.blocks:
            v = checkpoint(block, v, *angles, use_reentrant=False)
        return v

    _, mine_x, mine = gradients(ours, x, again)
    close(mine_x, grad_x)
    for name, value in grads.items():
        close(mine[name], value)


def test_autocast_computes_in_its_dtype_and_returns_gradients_of_the_weights_dtype(pair):
    theirs, ours, x, angles = pair(SHAPES["as many keys"])
    with torch.autocast("cpu", torch.bfloat16):
        y = run(ours, x, angles)
    y.float().square().sum().backward()
    assert y.dtype == torch.bfloat16 and all(w.grad.dtype == torch.float32 for w in ours.parameters())
    close(y.float(), run(theirs, x, angles), 5e-2)


def test_without_angles_a_block_says_what_it_needs(pair):
    _, ours, x, _ = pair(SHAPES["as many keys"], layers=1)
    with pytest.raises(TypeError, match=r"pass cos and sin, or position_embeddings"):
        ours(x)


def test_inputs_and_shapes_that_fit_no_block_are_one_sentence(pair):
    """Told before a row kernel reads a norm's weight behind its end."""
    _, ours, x, angles = pair(SHAPES["fewer keys"])
    for wrong in (x[..., :16], torch.cat((x, x), -1), x[0]):
        with pytest.raises(InputError, match=r"hidden_states has shape \[.*\]; give it \[batch, tokens, 32\]"):
            ours(wrong, *angles)
    with pytest.raises(InputError, match="x is 64 wide, and the norm's weight has shape"):
        rows.norm_scale(torch.randn(3, 64), torch.ones(32), 1e-5)
    with pytest.raises(InputError, match=r"x has shape \[3, 64\]; give it \[..., 32\]"):
        RMSNormSwiGLUMLP(32, 48)(torch.randn(3, 64))
    assert LlamaLayers([])(x, *angles) is x
    for heads, kv_heads, head_dim in ((4, 3, 8), (4, 0, 8), (4, 4, 7)):
        with pytest.raises(ValueError, match=f"{heads} heads of {head_dim} columns over {kv_heads} of keys and values"):
            LlamaBlock(LlamaShape(32, 48, heads, kv_heads, head_dim))


def test_compiled_it_computes_the_same(pair):
    _, ours, x, angles = pair(SHAPES["as many keys"], layers=2)
    expected, grad_x, _ = gradients(ours, x, lambda v: run(ours, v, angles))
    torch._dynamo.reset()
    compiled = torch.compile(ours, backend="aot_eager")
    y, mine_x, _ = gradients(ours, x, lambda v: compiled(v, *angles))
    close(y, expected)
    close(mine_x, grad_x)


def test_pairs_and_halves_are_inverse_orders():
    rows = torch.arange(16.0)[:, None]
    assert to_pairs(rows, 8)[:, 0].tolist() == [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15]
    assert torch.equal(from_pairs(to_pairs(rows, 8), 8), rows)


@pytest.mark.parametrize(("head_dim", "eps"), [(128, 1e-6), (128, 1e-5), (8, 1e-6)])
def test_qknorm_rope_is_that_of_qwen3_up_to_the_order_of_columns(plain, head_dim, eps):
    torch.manual_seed(0)
    shape = LlamaShape(16, 8, 2, 1, head_dim, eps)
    ours = QKNormRoPE(shape)
    nn.init.uniform_(ours.q_gamma, 0.5, 1.5)
    state = {name: value.clone() for name, value in ours.state_dict().items()}
    assert sorted(state) == ["k_norm.weight", "k_proj.weight", "q_norm.weight", "q_proj.weight"]
    other = QKNormRoPE(shape)
    other.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), other.parameters(), strict=True))
    x = torch.randn(2, 3, 16)
    cos, sin = plain.angles(3, head_dim, x)
    leaves = {name: value.requires_grad_() for name, value in state.items()}

    def theirs(v):
        parts = []
        for which in "qk":
            z = (v @ leaves[f"{which}_proj.weight"].T).unflatten(-1, (-1, head_dim))
            z = rms_norm(z, (head_dim,), leaves[f"{which}_norm.weight"], eps)
            parts.append(z * cos[:, None] + plain.turned(z) * sin[:, None])
        return parts

    def scores(q, k):
        return torch.einsum("bihd,bjhd->bhij", q, k.repeat_interleave(2, 2)).square().sum()

    with torch.no_grad():
        close(scores(*ours(x, cos, sin)), scores(*theirs(x)), 1e-4)
    results = []
    for function, names in ((theirs, leaves), (lambda v: ours(v, cos, sin), None)):
        v = x.clone().requires_grad_()
        scores(*function(v)).backward()
        weights = {n: w.grad for n, w in names.items()} if names else _by_name(ours)
        results.append({"x": v.grad, **weights})
    for name, value in results[0].items():
        close(results[1][name], value, 1e-4)


def _by_name(module):
    for weight in module.parameters():
        weight.data = weight.grad
    return dict(module.state_dict())


def test_a_key_value_cache_continues_where_it_stopped(pair):
    _, ours, x, angles = pair(SHAPES["fewer keys"])

    class Cache:
        def __init__(self):
            self.kept = {}

        def update(self, k, v, layer):
            if layer in self.kept:
                k, v = (torch.cat(parts, 2) for parts in zip(self.kept[layer], (k, v), strict=True))
            self.kept[layer] = k, v
            return k, v

    cache = Cache()
    with torch.no_grad():
        whole = run(ours, x, angles)
        ours(x[:, :5], tuple(a[:5] for a in angles), cache=cache)
        close(ours(x[:, 5:], tuple(a[5:] for a in angles), cache=cache), whole[:, 5:])
    assert len(cache.kept) == 3
