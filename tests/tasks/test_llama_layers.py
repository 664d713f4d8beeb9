"""Two Llama layers out of programs, attention between them, against the same layers in plain PyTorch, in float64.

The plain layers are written as Hugging Face writes them: rotate-half, grouped keys and values, norms in their place.
"""

from importlib.resources import files

import torch
from codasmith.tasks import program_tasks
from codasmith.templates.program import interpret
from codasmith.verified_kernels.modules import rotary
from codasmith.verified_kernels.modules import state_dict as sd
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

PROGRAMS = program_tasks()
HAND_WRITTEN = files("codasmith.verified_kernels.hand_written") / "programs"
BATCH, TOKENS, HEADS, KV, HEAD, D, F = 2, 7, 4, 2, 8, 40, 24
N = (HEADS + 2 * KV) * HEAD
SIZES = {"M": BATCH * TOKENS, "D": D, "F": F, "K": HEADS * HEAD, "N": N}
EPS = 1e-5


def run(name, **inputs):
    task = PROGRAMS[name]
    graphs = task.read((HAND_WRITTEN / f"{name}.py").read_text())
    return interpret(task.program(graphs, SIZES), {k: inputs[k] for k in task.tensors})


def random(*shape, scale=1.0):
    generator = torch.Generator().manual_seed(len(shape) + 7 * sum(shape))
    return scale * torch.randn(*shape, dtype=torch.float64, generator=generator)


def checkpoint(layer):
    shapes = {
        "q_proj": (HEADS * HEAD, D),
        "k_proj": (KV * HEAD, D),
        "v_proj": (KV * HEAD, D),
        "o_proj": (D, HEADS * HEAD),
        "gate_proj": (F, D),
        "up_proj": (F, D),
        "down_proj": (D, F),
    }
    torch.manual_seed(layer)
    weights = {k: torch.randn(s, dtype=torch.float64) * s[1] ** -0.5 for k, s in shapes.items()}
    norms = {k: 1 + torch.randn(D, dtype=torch.float64) / 4 for k in ("input_layernorm", "post_attention_layernorm")}
    return {k: v.requires_grad_() for k, v in {**weights, **norms}.items()}


def angles():
    frequency = 1 / 100 ** (torch.arange(0, HEAD, 2, dtype=torch.float64) / HEAD)
    angle = (torch.arange(TOKENS, dtype=torch.float64)[:, None] * frequency).repeat(1, 2)
    return angle.cos(), angle.sin()


def plain(x, layers):
    cos, sin = angles()

    def turned(t):
        return t * cos + torch.cat((-t[..., HEAD // 2 :], t[..., : HEAD // 2]), -1) * sin

    for w in layers:
        normed = rms_norm(x, (D,), w["input_layernorm"], EPS).view(BATCH, TOKENS, D)
        q, k, v = ((normed @ w[f"{n}_proj"].T).unflatten(-1, (-1, HEAD)).transpose(1, 2) for n in ("q", "k", "v"))
        a = scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        h = x + a.transpose(1, 2).reshape(BATCH * TOKENS, -1) @ w["o_proj"].T
        normed = rms_norm(h, (D,), w["post_attention_layernorm"], EPS)
        x = h + (silu(normed @ w["gate_proj"].T) * (normed @ w["up_proj"].T)) @ w["down_proj"].T
    return x


def attention(qkv):
    """a [M, K] from the rotated projections [M, N]; their columns are in pairs, for queries and keys alike."""
    q, k, v = (t.transpose(1, 2) for t in qkv.view(BATCH, TOKENS, -1, HEAD).split((HEADS, KV, KV), 2))
    a = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return a.transpose(1, 2).reshape(BATCH * TOKENS, -1)


def attention_grad(qkv, da):
    leaf = qkv.detach().requires_grad_()
    return torch.autograd.grad(attention(leaf), leaf, da)[0]


def converted(w):
    """A checkpoint's layer as the programs take it."""
    with torch.no_grad():
        return {
            "w_qkv": sd.join_qkv(w["q_proj"], w["k_proj"], w["v_proj"], HEAD),
            "w_up": sd.join_gate_up(w["gate_proj"], w["up_proj"]),
            "w_o": w["o_proj"].detach(),
            "w_down": w["down_proj"].detach(),
            "gamma": w["post_attention_layernorm"].detach(),
        }


def test_two_layers_of_programs_and_their_gradients_are_those_of_plain_layers():
    layers = [checkpoint(0), checkpoint(1)]
    x = random(BATCH * TOKENS, D).requires_grad_()
    wanted = plain(x, layers)
    dy = random(BATCH * TOKENS, D) + 0.5
    wanted.backward(dy)

    one, two = (converted(w) for w in layers)
    norms = [w["input_layernorm"].detach() for w in layers]
    cos, sin = (t.repeat(BATCH, 1) for t in angles())
    shared = {"table": rotary.table(cos, sin, HEAD, HEADS + KV, KV * HEAD), "eps": EPS}
    stream = x.detach()

    first = run("rmsnorm_qkv_rope", x=stream, gamma=norms[0], w_qkv=one["w_qkv"], **shared)
    a0 = attention(first["qkv"])
    middle_in = {**one, "w_qkv": two["w_qkv"], "gamma_next": norms[1], "a": a0, "x": stream, **shared}
    middle = run("llama_block", **middle_in)
    a1 = attention(middle["qkv"])
    last_in = {**two, "a": a1, "x": middle["y"], **shared}
    last = run("rmsnorm_mlp_swiglu", **last_in)
    torch.testing.assert_close(last["y"], wanted.detach(), rtol=1e-10, atol=1e-10)

    end = run("rmsnorm_mlp_swiglu_bwd", **{**last_in, **last, "dy": dy})
    inner = run(
        "llama_block_bwd",
        **{**middle_in, **middle, "dy": end["dx"], "dqkv": attention_grad(middle["qkv"], end["da"])},
    )
    begin = run(
        "rmsnorm_qkv_rope_bwd",
        x=stream,
        gamma=norms[0],
        w_qkv=one["w_qkv"],
        dqkv=attention_grad(first["qkv"], inner["da"]),
        **first,
        **shared,
    )

    got = [
        {**inner, "dw_qkv": begin["dw_qkv"], "dgamma_in": begin["dgamma"]},
        {**end, "dw_qkv": inner["dw_qkv"], "dgamma_in": inner["dgamma_next"]},
    ]
    agree = {"rtol": 1e-9, "atol": 1e-10}
    torch.testing.assert_close(begin["dx"] + inner["dx"], x.grad, **agree)
    for w, g in zip(layers, got, strict=True):
        gate, up = sd.split_gate_up(g["dw_up"])
        q, k, v = sd.split_qkv(g["dw_qkv"], HEADS, KV, HEAD)
        gradients = {
            "q_proj": q,
            "k_proj": k,
            "v_proj": v,
            "o_proj": g["dw_o"],
            "gate_proj": gate,
            "up_proj": up,
            "down_proj": g["dw_down"],
            "input_layernorm": g["dgamma_in"],
            "post_attention_layernorm": g["dgamma"],
        }
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, w[name].grad, msg=lambda m, n=name: f"{n}: {m}", **agree)
