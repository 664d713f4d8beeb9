"""Patching: the same logits, the report, and the original bits back."""

import pytest
import torch
from codasmith.verified_kernels.modules import LlamaBlock, RMSNormSwiGLUMLP, SwiGLUMLP
from codasmith.verified_kernels.patch import PatchError, patch, unpatch
from torch import nn
from torch.nn.functional import gelu, silu

pytestmark = pytest.mark.filterwarnings("ignore:.*runs its unfused reference")


class MLP(nn.Module):
    def __init__(self, bias=False, activation=silu):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(16, 24, bias=bias), nn.Linear(16, 24, bias=bias)
        self.down_proj, self.activation = nn.Linear(24, 16, bias=bias), activation

    def forward(self, x):
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.norm, self.feed_forward = nn.RMSNorm(16), MLP(**how)

    def forward(self, x):
        return x + self.feed_forward(self.norm(x))


class Decoder(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.embed, self.layers = nn.Embedding(11, 16), nn.ModuleList(layers or [Layer(), Layer()])
        self.head = nn.Linear(16, 11, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


TOKENS = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])


def transformers_model(name, **changes):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        **changes,
    )
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


@pytest.mark.parametrize("name", ["Llama", "Qwen3"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 4e-2)])
def test_a_transformers_model_answers_the_same_and_is_restored(name, dtype, tolerance):
    model = transformers_model(name).to(dtype)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with torch.no_grad():
        expected = model(TOKENS).logits
        report = patch(model)
        logits = model(TOKENS).logits
    layer = model.model.layers[1]
    assert report.kept == {}
    if name == "Llama":
        assert report.replaced == {"model.layers": "LlamaLayers of 2 blocks"} and type(layer) is LlamaBlock
        assert set(model.state_dict()) == set(before)
    else:
        assert type(layer.mlp) is RMSNormSwiGLUMLP and type(layer.post_attention_layernorm) is nn.Identity
        assert report.replaced["model.layers.1.mlp"] == "RMSNormSwiGLUMLP"
        assert report.replaced["model.layers.0.post_attention_layernorm"] == "part of model.layers.0.mlp"
        assert report.replaced["model.layers.1.self_attn"] == "QKNormAttention"
    torch.testing.assert_close(logits, expected, rtol=tolerance, atol=tolerance * expected.abs().max().item())
    unpatch(model)
    after = model.state_dict()
    assert list(after) == list(before) and all(torch.equal(after[k], v) for k, v in before.items())
    with torch.no_grad():
        assert torch.equal(model(TOKENS).logits, expected)


@pytest.mark.parametrize("name", ["Llama", "Qwen3"])
def test_a_patched_transformers_model_generates_and_masks_as_before(name):
    model = transformers_model(name)
    padded = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    how = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    with torch.no_grad():
        expected = model.generate(TOKENS, attention_mask=padded, **how), model(TOKENS, attention_mask=padded).logits
        patch(model)
        tokens, logits = (
            model.generate(TOKENS, attention_mask=padded, **how),
            model(TOKENS, attention_mask=padded).logits,
        )
    assert torch.equal(tokens, expected[0])
    for ours, theirs, kept in zip(logits, expected[1], padded.bool(), strict=True):
        torch.testing.assert_close(ours[kept], theirs[kept], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["Llama", "Qwen3"])
def test_a_patched_transformers_model_learns_the_same(name):
    model, other = transformers_model(name), transformers_model(name)
    patch(other)
    for each in (model, other):
        each.train()
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            each(TOKENS, labels=TOKENS).loss.backward()
            optimizer.step()
    unpatch(other)
    for (key, ours), theirs in zip(other.state_dict().items(), model.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4 * theirs.abs().max().item(), msg=key)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"attention_dropout": 0.1}, "layer 0: its attention has dropout"),
        ({"attention_bias": True}, "layer 0: q_proj has a bias"),
        ({"attn_implementation": "flex_attention"}, 'its attention is "flex_attention"'),
    ],
)
def test_layers_that_attend_otherwise_keep_their_attention(change, says):
    model = transformers_model("Llama", **change)
    report = patch(model)
    assert says in report.kept["model.layers"]
    assert report.replaced["model.layers.0.mlp"] == "RMSNormSwiGLUMLP"


def test_a_plain_decoder_keeps_its_keys_and_its_answers():
    torch.manual_seed(0)
    model = Decoder()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    expected = model(TOKENS)
    report = patch(model)
    assert list(report.replaced) == ["layers.0.feed_forward", "layers.1.feed_forward"]
    assert type(model.layers[0].feed_forward) is SwiGLUMLP
    state = model.state_dict()
    assert set(state) == set(before) and all(torch.equal(state[k], v) for k, v in before.items())
    torch.testing.assert_close(model(TOKENS), expected, rtol=1e-4, atol=1e-4)
    unpatch(model)
    assert torch.equal(model(TOKENS), expected)


def test_what_was_trained_while_patched_stays():
    torch.manual_seed(0)
    model = Decoder()
    patch(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(TOKENS).square().sum().backward()
    optimizer.step()
    trained, answer = {k: v.clone() for k, v in model.state_dict().items()}, model(TOKENS)
    unpatch(model)
    assert all(torch.equal(v, trained[k]) for k, v in model.state_dict().items())
    torch.testing.assert_close(model(TOKENS), answer, rtol=1e-4, atol=1e-4)


def test_what_is_left_alone_is_named_with_the_reason():
    model = Decoder(Layer(), Layer(bias=True), Layer(activation=gelu))
    report = patch(model)
    assert list(report.replaced) == ["layers.0.feed_forward"]
    assert "gate_proj has a bias" in report.kept["layers.1.feed_forward"]
    assert "computes something else" in report.kept["layers.2.feed_forward"]
    assert "kept      layers.1.feed_forward: gate_proj has a bias" in str(report)


def test_a_model_in_which_nothing_can_be_replaced_is_an_error():
    with pytest.raises(PatchError, match=r"nothing in this Linear can be replaced .*no gated MLP"):
        patch(nn.Linear(4, 4))
    model = Decoder(Layer(bias=True))
    with pytest.raises(PatchError, match="gate_proj has a bias"):
        patch(model)
    assert type(model.layers[0].feed_forward) is MLP


def test_twice_patched_and_not_patched_are_errors():
    model = Decoder()
    with pytest.raises(PatchError, match="not patched"):
        unpatch(model)
    patch(model)
    with pytest.raises(PatchError, match="patched already"):
        patch(model)
