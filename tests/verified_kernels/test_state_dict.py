"""Between a checkpoint's order and the programs': exact both ways, and attention does not notice."""

from __future__ import annotations

import pytest
import torch
from codasmith.verified_kernels.errors import RegistryError
from codasmith.verified_kernels.modules import rotary
from codasmith.verified_kernels.modules import state_dict as sd

H, G, HEAD, D = 4, 2, 16, 24


def state_dict(seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "model.layers.0.self_attn.q_proj.weight": (H * HEAD, D),
        "model.layers.0.self_attn.q_proj.bias": (H * HEAD,),
        "model.layers.0.self_attn.k_proj.weight": (G * HEAD, D),
        "model.layers.0.self_attn.v_proj.weight": (G * HEAD, D),
        "model.layers.0.self_attn.o_proj.weight": (D, H * HEAD),
        "model.layers.0.self_attn.q_norm.weight": (HEAD,),
        "model.layers.0.self_attn.k_norm.weight": (HEAD,),
        "model.norm.weight": (D,),
    }
    return {k: torch.randn(s, generator=generator).bfloat16() for k, s in shapes.items()}


def test_the_first_rows_of_a_head_are_the_two_of_its_first_pair():
    rows = torch.arange(2 * HEAD)
    assert rotary.to_pairs(rows, HEAD)[:4].tolist() == [0, HEAD // 2, 1, HEAD // 2 + 1]
    assert rotary.to_pairs(rows, HEAD)[HEAD : HEAD + 2].tolist() == [HEAD, HEAD + HEAD // 2]


def test_a_state_dict_goes_there_and_back_bit_for_bit_and_only_rotary_tensors_change():
    before = state_dict()
    there = sd.state_to_pairs(before, HEAD)
    back = sd.state_from_pairs(there, HEAD)
    assert list(there) == list(back) == list(before)
    moved = {k.split(".", 3)[-1] for k in before if not torch.equal(before[k], there[k])}
    assert moved == {f"self_attn.{n}" for n in sd.ROTATED if n != "k_proj.bias"}
    assert all(torch.equal(before[k], back[k]) for k in before)


def test_joined_weights_norms_tables_and_gates_come_apart_as_they_were():
    s = {k.rsplit("self_attn.", 1)[-1]: v for k, v in state_dict().items()}
    q, k, v = s["q_proj.weight"], s["k_proj.weight"], s["v_proj.weight"]
    joined = sd.join_qkv(q, k, v, HEAD)
    assert all(torch.equal(a, b) for a, b in zip((q, k, v), sd.split_qkv(joined, H, G, HEAD), strict=True))

    norms = s["q_norm.weight"], s["k_norm.weight"]
    gamma, plain = sd.join_norms(*norms, H, G)
    assert gamma.shape == plain.shape == (joined.shape[0],)
    assert plain.tolist() == [0] * (H + G) * HEAD + [1] * G * HEAD
    assert not gamma[(H + G) * HEAD :].any()
    assert all(torch.equal(a, b) for a, b in zip(norms, sd.split_norms(gamma, H, HEAD), strict=True))

    angle = torch.rand(2, 5, HEAD // 2).repeat(1, 1, 2)
    cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
    cos, sin = cos.flatten(0, 1), sin.flatten(0, 1)
    table = rotary.table(cos, sin, HEAD, H + G, G * HEAD)
    assert table.shape == (10, joined.shape[0])
    back = sd.cos_sin(table, HEAD)
    assert torch.equal(back[0], cos) and torch.equal(back[1], sin)
    assert table[3, (H + G) * HEAD :].tolist() == [1, 0] * (G * HEAD // 2)

    gate, up = s["q_proj.weight"], s["q_proj.weight"] + 1
    assert all(torch.equal(a, b) for a, b in zip((gate, up), sd.split_gate_up(sd.join_gate_up(gate, up)), strict=True))


def test_gradients_of_repeated_norm_weights_are_summed_over_their_heads():
    q_norm, k_norm = (torch.ones(HEAD, requires_grad=True) for _ in range(2))
    gamma, plain = sd.join_norms(q_norm, k_norm, H, G)
    assert not plain.requires_grad
    gamma.backward(torch.arange(gamma.shape[0], dtype=torch.float32))
    by_head = torch.arange(H * HEAD, dtype=torch.float32).view(H, HEAD).sum(0)
    assert torch.equal(q_norm.grad, rotary.from_pairs(by_head, HEAD))
    assert k_norm.grad.sum() == torch.arange(H * HEAD, (H + G) * HEAD).sum()


def test_turning_pairs_is_rotating_halves_in_the_other_order():
    x = torch.randn(7, H * HEAD, dtype=torch.float64)
    angle = torch.rand(7, HEAD // 2, dtype=torch.float64).repeat(1, 2) * 6
    cos, sin = angle.cos(), angle.sin()
    heads = x.unflatten(-1, (H, HEAD))
    half = torch.cat((-heads[..., HEAD // 2 :], heads[..., : HEAD // 2]), -1)
    wanted = (heads * cos[:, None] + half * sin[:, None]).flatten(1)

    table = rotary.table(cos, sin, HEAD, H)
    c, s = table.unflatten(-1, (-1, 2)).unbind(-1)
    a, b = rotary.to_pairs(x.T, HEAD).T.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
    torch.testing.assert_close(rotary.from_pairs(turned.T, HEAD).T, wanted, rtol=1e-14, atol=1e-14)


def test_what_does_not_divide_into_heads_is_refused_by_its_key():
    with pytest.raises(RegistryError, match=r"q_proj.weight has 64 rows, which do not divide into heads of 24"):
        sd.state_to_pairs(state_dict(), 24)
    with pytest.raises(RegistryError, match="an even number"):
        sd.state_from_pairs(state_dict(), 1)
    with pytest.raises(RegistryError, match="w_qkv has 64 rows, and 4 query heads"):
        sd.split_qkv(torch.zeros(64, 2), H, G, HEAD)


def test_shapes_that_would_be_reordered_wrongly_in_silence_are_one_sentence():
    cos = torch.rand(5, 128)
    wrong = {
        "the tensor has 130 rows, which do not divide into heads of 128": lambda: rotary.to_pairs(torch.rand(130), 128),
        "the tensor has 9 rows, which do not divide into heads of 3": lambda: rotary.from_pairs(torch.rand(9), 3),
        "cos has shape [1, 5, 128] and sin [1, 5, 128]; give both [tokens, 128] or half so wide": (
            lambda: rotary.table(cos[None], cos[None], 128, 4)
        ),
        "cos has shape [5, 32] and sin [5, 32]": lambda: rotary.table(cos[:, :32], cos[:, :32], 128, 4),
        "cos has shape [5, 128] and sin [5, 64]": lambda: rotary.table(cos, cos[:, :64], 128, 4),
        "cos has shape [5, 128] and sin [5, 128]; give both [tokens, 64]": lambda: rotary.table(cos, cos, 64, 4),
        "untouched is 3; columns come in pairs": lambda: rotary.table(cos, cos, 128, 4, 3),
        "q_norm has shape [128] and k_norm [64]": lambda: sd.join_norms(cos[0], cos[0, :64], 4, 2),
        "gamma has 512 elements, and 4 query heads and one of keys": lambda: sd.split_norms(torch.rand(512), 4, 128),
        "the table has shape [5, 128]; give [M, N] of whole heads of 256": lambda: sd.cos_sin(cos, 256),
        "gate has shape [3, 4] and up [5, 4]": lambda: sd.join_gate_up(torch.rand(3, 4), torch.rand(5, 4)),
    }
    for words, call in wrong.items():
        with pytest.raises(RegistryError) as caught:
            call()
        assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("end", ["q_proj.weight_scale", "k_proj.lora_B.default.weight", "k_proj.base_layer.weight"])
def test_a_tensor_that_must_be_reordered_with_a_rotary_weight_and_cannot_be_is_refused(end):
    state = state_dict() | {f"model.layers.0.self_attn.{end}": torch.ones(H * HEAD, 1)}
    with pytest.raises(RegistryError, match=rf"self_attn\.{end} belongs to a rotary projection or norm, and only"):
        sd.state_to_pairs(state, HEAD)
