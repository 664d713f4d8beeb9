"""What patching leaves as it is, and why: hooks, shared and quantised weights, other attention; and what it keeps."""

import copy

import pytest
import torch
from codasmith.verified_kernels.modules import LlamaLayers
from codasmith.verified_kernels.patch import PatchError, patch, unpatch
from torch import nn
from torch.nn.functional import silu

pytestmark = pytest.mark.filterwarnings("ignore:.*runs its unfused reference")
TOKENS = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1]])


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(16, 24, bias=False), nn.Linear(16, 24, bias=False)
        self.down_proj = nn.Linear(24, 16, bias=False)

    def forward(self, x):
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class Quantised(torch.Tensor):
    """Stands for a tensor that keeps its values in another form."""


def hooked(model, said):
    model[1].up_proj.register_forward_hook(lambda module, inputs, output: said.append("called"))


def hooked_before(model, said):
    model[1].register_forward_pre_hook(lambda module, inputs: said.append("called"))


def hooked_weight(model, said):
    model[1].gate_proj.weight.register_hook(lambda gradient: said.append("called"))


def exchanged(model, said):
    forward = model[1].forward
    model[1].forward = lambda x: (said.append("called"), forward(x))[1]


def tied(model, said):
    model[1].up_proj.weight = model[2].up_proj.weight


def repeated(model, said):
    model[2] = model[1]


def quantised(model, said):
    weight = model[1].down_proj.weight.detach().as_subclass(Quantised)
    model[1].down_proj.weight = nn.Parameter(weight, requires_grad=False)


class LoRA(nn.Linear):
    """Stands for a linear layer with an adapter beside its weight."""


def adapted(model, said):
    model[1].gate_proj = LoRA(16, 24, bias=False)


ENTANGLED = [
    (adapted, {"1": "gate_proj is a LoRA, and a plain torch.nn.Linear is needed"}),
    (hooked, {"1": "up_proj has hooks, which would not run any more; remove them, or put them on after patching"}),
    (hooked_before, {"1": "it has hooks, which would not run any more"}),
    (hooked_weight, {"1": "gate_proj.weight has hooks, which would not run any more"}),
    (exchanged, {"1": "the forward of the module was exchanged"}),
    (tied, dict.fromkeys("12", "up_proj.weight is shared with another module, and would no longer be")),
    (repeated, {"1": "it stands in the model more than once"}),
    (quantised, {"1": "the weight of down_proj is a Quantised, and a plain tensor is needed"}),
]


@pytest.mark.parametrize(("change", "kept"), ENTANGLED, ids=lambda v: getattr(v, "__name__", ""))
def test_a_module_that_others_hold_on_to_stays_and_the_rest_is_replaced(change, kept):
    torch.manual_seed(0)
    model, said = nn.Sequential(MLP(), MLP(), MLP()), []
    change(model, said)
    x = torch.randn(2, 16, requires_grad=True)
    expected, before, parts = model(x).detach(), list(model.state_dict()), list(model)
    report = patch(model)
    others = {"0"} if change is repeated else {"0", "1", "2"} - set(kept)
    assert set(report.kept) == set(kept) and set(report.replaced) == others
    assert all(words in report.kept[name] for name, words in kept.items())
    assert all((model[int(name)] is parts[int(name)]) == (name not in others) for name in "012")
    said.clear()
    y = model(x)
    y.sum().backward()
    torch.testing.assert_close(y.detach(), expected)
    assert set(said) == ({"called"} if change in (hooked, hooked_before, hooked_weight, exchanged) else set())
    unpatch(model)
    assert list(model) == parts and list(model.state_dict()) == before and torch.equal(model(x), expected)


def test_where_all_is_entangled_the_error_says_so():
    model = nn.Sequential(MLP())
    hooked_before([None, model[0]], [])
    with pytest.raises(PatchError, match=r"nothing in this Sequential can be replaced \(0: it has hooks"):
        patch(model)


def made(name, **changes):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    config = getattr(transformers, f"{name}Config")(**{**sizes, **heads, **changes})
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


KINDS = [
    ("Llama", {"tie_word_embeddings": True}, ""),
    ("Llama", {"num_key_value_heads": 4}, ""),
    ("Llama", {"num_key_value_heads": 1}, ""),
    ("Qwen3", {"tie_word_embeddings": True}, ""),
    ("Qwen3", {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0}, "has a sliding window"),
    ("Qwen3", {"attention_bias": True}, "q_proj has a bias"),
    ("Qwen2", {}, "q_proj has a bias"),
    ("Mistral", {"sliding_window": 3}, ""),
    ("Mistral", {"sliding_window": None}, ""),
]


@pytest.mark.parametrize(("name", "changes", "kept"), KINDS, ids=str)
def test_models_of_transformers_answer_the_same_and_come_back(name, changes, kept):
    model = made(name, **changes)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        expected = model(TOKENS).logits
        report = patch(model)
        torch.testing.assert_close(model(TOKENS).logits, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())
        assert not kept or any(kept in reason for reason in report.kept.values()), report
        tied_here = getattr(model.config, "tie_word_embeddings", False)
        assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied_here
        unpatch(model)
        after = model.state_dict()
        assert list(after) == list(before) and all(torch.equal(after[key], value) for key, value in before.items())
        assert torch.equal(model(TOKENS).logits, expected)
        assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied_here


@pytest.mark.parametrize("name", ["Llama", "Qwen3"])
def test_a_copy_of_a_patched_model_comes_back_by_itself(name):
    model = made(name)
    with torch.no_grad():
        expected = model(TOKENS).logits
        patch(model)
        patched = model(TOKENS).logits
        other = copy.deepcopy(model)
        unpatch(other)
        assert torch.equal(other(TOKENS).logits, expected)
        assert torch.equal(model(TOKENS).logits, patched)
        unpatch(model)
        assert torch.equal(model(TOKENS).logits, expected)


def test_a_hooked_layer_of_llama_keeps_the_stack_apart():
    model, said = made("Llama"), []
    model.model.layers[1].input_layernorm.register_forward_hook(lambda *any: said.append("called"))
    report = patch(model)
    assert "1.input_layernorm has hooks" in report.kept["model.layers"]
    assert not isinstance(model.model.layers, LlamaLayers) and "model.layers.1.mlp" in report.replaced
    with torch.no_grad():
        model(TOKENS)
    assert said == ["called"]
