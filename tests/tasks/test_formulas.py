"""The mathematics of the catalogue, in float64: backward tasks against autograd, deferred norms and losses against
PyTorch's own functions."""

import math

import pytest
import torch
from codasmith.tasks import cast, catalogue, draw, oracle
from torch.nn import functional as F

TASKS = catalogue()
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def drawn(name, family=0):
    return cast(draw(TASKS[name], TASKS[name].correctness_workloads()[family]), torch.float64)


def answer(name, given):
    return oracle(TASKS[name], {k: given[k] for k in TASKS[name].tensors})


def lanes(t):
    return t[..., 0::2], t[..., 1::2]


def clamped(z, alpha, limit):
    gate, up = z[..., 0::2].clamp(max=limit), z[..., 1::2].clamp(-limit, limit)
    return (up + 1) * gate * torch.sigmoid(alpha * gate)


def gated(activation):
    return lambda i: activation(lanes(i["z"])[0]) * lanes(i["z"])[1]


BACKWARD = {
    "gelu_bwd": (lambda i: F.gelu(i["pre"]), {"pre": "dx"}, None),
    "gelu_bwd_bias_grad": (lambda i: F.gelu(i["pre"]), {"pre": "dx"}, None),
    "relu_sq_bwd": (lambda i: F.relu(i["pre"]).square(), {"pre": "dx"}, "a"),
    "geglu_bwd": (gated(lambda g: F.gelu(g, approximate="tanh")), {"z": "dz"}, "o"),
    "swiglu_bwd": (gated(F.silu), {"z": "dz"}, "o"),
    "swiglu_bwd_pointwise": (gated(F.silu), {"z": "dz"}, None),
    "swiglu_limit_bwd": (lambda i: clamped(i["z"], i["alpha"], i["limit"]), {"z": "dz"}, "o"),
    "sigmoid_gate_bwd": (lambda i: i["o"] * torch.sigmoid(i["gate"]), {"o": "d_o", "gate": "d_gate"}, None),
}
"""By task: the activation before the next layer, whose gradients the task gives, and what it computes again."""


@pytest.mark.parametrize("name", BACKWARD)
@pytest.mark.parametrize("family", range(7))
def test_a_backward_task_is_the_derivative_of_its_forward_in_every_family(name, family):
    forward, gradients, again = BACKWARD[name]
    inputs = drawn(name, family)
    leaves = {k: inputs[k].clone().requires_grad_() for k in gradients}
    value = forward({**inputs, **leaves})
    (value @ inputs["w"].T).backward(inputs["dy"])
    found = answer(name, inputs)
    for leaf, gradient in gradients.items():
        wanted = leaves[leaf].grad
        if name == "swiglu_limit_bwd":  # where a clamp cuts exactly, autograd passes what the task holds back
            gate, up = lanes(inputs["z"])
            edge = torch.stack((gate == inputs["limit"], up.abs() == inputs["limit"]), -1).flatten(-2)
            wanted = wanted.masked_fill(edge, 0.0)
            assert not found[gradient][edge].any()
        scale = wanted.abs().max().item()
        torch.testing.assert_close(found[gradient], wanted, rtol=1e-9, atol=1e-12 * scale)
    if again:
        torch.testing.assert_close(found[again], value.detach(), **CLOSE)
    if "dbias" in found:
        torch.testing.assert_close(found["dbias"], leaves["pre"].grad.sum(0), rtol=1e-9, atol=1e-9 * scale)
    if "zdz" in found:
        torch.testing.assert_close(found["zdz"], (inputs["z"] * leaves["z"].grad).sum(-1), rtol=1e-8, atol=1e-9 * scale)


def random(*shape, scale=1.0):
    generator = torch.Generator().manual_seed(sum(n << i for i, n in enumerate(shape)))
    return scale * torch.randn(*shape, dtype=torch.float64, generator=generator)


M, D, N = 9, 40, 48


@pytest.fixture
def normed():
    """h, gamma, a weight [N, D], and what the deferred tasks get for them."""
    h, gamma, w = random(M, D) + 0.5, 1 + random(D, scale=0.25), random(N, D, scale=D**-0.5)
    rstd = torch.rsqrt(h.square().mean(-1) + 1e-6)
    plain = F.rms_norm(h, (D,), gamma, 1e-6) @ w.T
    return {"h": h * gamma, "x": h * gamma, "w": w, "rstd": rstd, "stream": h, "gamma": gamma, "plain": plain}


def turned(t, table):
    """Pairs of columns as complex numbers, times those of the table."""
    return torch.view_as_real(torch.complex(*lanes(t)) * torch.complex(*lanes(table))).flatten(-2)


def test_a_norm_deferred_behind_its_product_is_rms_norm_before_it(normed):
    plain, table = normed["plain"], random(M, N)
    gate, up = plain.chunk(2, -1)
    z = torch.stack((gate, up), -1).flatten(-2)
    target = torch.arange(M)
    expected = {
        "rmsnorm_scale": {"y": plain},
        "rmsnorm_relu_sq": {"y": F.relu(plain).square()},
        "rmsnorm_swiglu": {"o": F.silu(gate) * up},
        "rmsnorm_swiglu_z": {"z": z, "o": F.silu(gate) * up},
        "rmsnorm_geglu": {"o": F.gelu(gate, approximate="tanh") * up},
        "rmsnorm_rope": {"y": turned(plain, table)},
        "rmsnorm_cross_entropy": {
            "logits": plain,
            "target_logit": plain[target, target],
            "lse": plain.exp().sum(-1).log(),
        },
    }
    assert set(expected) == {n for n in TASKS if n.startswith("rmsnorm_")}
    for name, outputs in expected.items():
        found = answer(name, {**normed, "table": table, "target": target})
        for key, value in outputs.items():
            torch.testing.assert_close(found[key], value, msg=lambda m, n=name: f"{n}: {m}", **CLOSE)


def test_the_producer_of_a_deferred_norm_leaves_what_the_norm_needs(normed):
    x, w, residual = random(M, 16), random(D, 16), normed["stream"]
    h = x @ w.T + residual
    found = answer("residual_partial_rmsnorm", {"x": x, "w": w, "residual": residual, "gamma": normed["gamma"]})
    rstd = torch.rsqrt(found["sumsq"] / D + 1e-6)
    torch.testing.assert_close(found["g"] * rstd[:, None], F.rms_norm(h, (D,), normed["gamma"], 1e-6), **CLOSE)
    stats = answer("residual_layernorm_stats", {"x": x, "w": w, "residual": residual})
    mean = stats["sums"] / D
    rstd = torch.rsqrt(stats["sumsq"] / D - mean**2 + 1e-5)
    torch.testing.assert_close((stats["h"] - mean[:, None]) * rstd[:, None], F.layer_norm(h, (D,)), **CLOSE)
    torch.testing.assert_close(found["h"], h, **CLOSE)


@pytest.mark.parametrize("name", ["linear_adaln", "layernorm_gelu"])
def test_a_deferred_layer_norm_is_layer_norm_before_the_product(name):
    x, w, scale, shift, bias = random(M, D) + 1, random(N, D), random(D), random(D) + 1, random(N)
    scaled = w * (1 + scale)
    mean, rstd = x.mean(-1), torch.rsqrt(x.var(-1, unbiased=False) + 1e-5)
    given = {"x": x, "w": scaled, "mean": mean, "rstd": rstd, "u": scaled.sum(-1), "v": w @ shift + bias}
    expected = F.layer_norm(x, (D,), 1 + scale, shift) @ w.T + bias
    torch.testing.assert_close(answer(name, given)["y"], F.gelu(expected) if "gelu" in name else expected, **CLOSE)


@pytest.mark.parametrize("statistic", ["linear_row_dot", "swiglu_bwd", "rotation"])
def test_the_norms_backward_takes_its_statistic_from_what_came_behind_it(normed, statistic):
    """Wherever the kernel that produces the gradient finds it: y times its gradient, through a gate or a rotation."""
    h, gamma = (normed[k].clone().requires_grad_() for k in ("stream", "gamma"))
    w, next_w, dy, residual = normed["w"].clone().requires_grad_(), random(12, N), random(M, 12), random(M, D)
    y, table = F.rms_norm(h, (D,), gamma, 1e-6) @ w.T, torch.ones(M, N, dtype=torch.float64)
    if statistic == "swiglu_bwd":
        next_w = next_w[:, : N // 2].contiguous()
        (F.silu(lanes(y)[0]) * lanes(y)[1] @ next_w.T).backward(dy)
        behind = answer("swiglu_bwd", {"dy": dy, "w": next_w, "z": y.detach()})
        grad_y, s = behind["dz"], behind["zdz"]
    else:
        if statistic == "rotation":
            angle = random(M, N // 2)
            table = torch.stack((angle.cos(), angle.sin()), -1).flatten(-2)
        (turned(y, table) @ next_w.T).backward(dy) if statistic == "rotation" else (y @ next_w.T).backward(dy)
        z = turned(y, table).detach() if statistic == "rotation" else y.detach()
        behind = answer("linear_row_dot", {"dy": dy, "w": next_w, "y": z})
        back = table * torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(N // 2)
        grad_y = turned(behind["grad_y"], back) if statistic == "rotation" else behind["grad_y"]
        s = behind["ydy"]
    given = {"dy": grad_y, "w": normed["w"], "h": normed["stream"], "gamma": normed["gamma"], "rstd": normed["rstd"]}
    given |= {"s": s / D, "residual_grad": residual, "dx": residual}
    for name, gradient in (("residual_rmsnorm_bwd", "grad_h"), ("residual_rmsnorm_bwd_inplace", "dx")):
        found = answer(name, given)
        # The statistic leaves out the epsilon beside the mean of squares, which is a millionth of it here.
        torch.testing.assert_close(found[gradient], h.grad + residual, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found["grad_gamma"], gamma.grad, **CLOSE)
        torch.testing.assert_close(grad_y.T @ found["c_gamma"], w.grad, **CLOSE)


@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["ordinary", "large logits"])
def test_what_the_losses_leave_joins_to_pytorchs(scale):
    x, w, target, cap = random(M, D), random(N, D, scale=scale * D**-0.5), torch.arange(M) * 5, 6.0
    acc = (x @ w.T).requires_grad_()
    capped, ones = cap * torch.tanh(acc / cap), torch.ones(M, dtype=torch.float64)
    given = {"x": x, "w": w, "target": target, "cap": cap, "rstd": ones, "inverse_temperature": 0.5}
    plain = ("linear_cross_entropy_partial", acc), ("rmsnorm_cross_entropy", acc)
    for name, logits in (*plain, ("softcap_cross_entropy", capped), ("linear_logprob", acc * 0.5)):
        found = answer(name, given)
        wanted = F.cross_entropy(logits, target, reduction="none").detach()
        torch.testing.assert_close(found["lse"] - found["target_logit"], wanted, **CLOSE)
    for name, logits in (("linear_dlogits", acc), ("softcap_dlogits", capped)):
        lse = logits.logsumexp(-1).detach()
        (wanted,) = torch.autograd.grad(F.cross_entropy(logits, target, reduction="sum"), acc, retain_graph=True)
        torch.testing.assert_close(answer(name, {**given, "lse": lse})["dlogits"], wanted, **CLOSE)
    lse = acc.logsumexp(-1).detach()
    found = answer("linear_entropy", {**given, "lse": lse})
    policy = torch.distributions.Categorical(logits=acc.detach())
    torch.testing.assert_close(lse - found["expected"], policy.entropy(), **CLOSE)
    torch.testing.assert_close(found["target_logit"] - lse, policy.log_prob(target), **CLOSE)
    router = answer("linear_zloss", {**given, "bias": torch.zeros(N, dtype=torch.float64)})
    torch.testing.assert_close(router["lse"], lse, **CLOSE)


@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["ordinary", "far from zero"])
def test_losses_of_pairs_and_step_sizes_are_right_far_from_zero(scale):
    x, w = random(M, D), random(N, D, scale=scale * D**-0.5)
    signs = torch.where(torch.eye(M, N, dtype=torch.bool), 1.0, -1.0).double()
    wanted = -F.logsigmoid(signs * (1.5 * x @ w.T - 1)).sum(-1)
    found = answer("siglip_loss", {"x": x, "w": w, "temperature": 1.5, "bias": -1.0})["loss"]
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=0)
    delta = answer("linear_bias_softplus", {"x": x, "w": w, "bias": torch.zeros(N, dtype=torch.float64)})["delta"]
    exact = [[max(v, 0.0) + math.log1p(math.exp(-abs(v))) for v in row] for row in (x @ w.T).tolist()]
    torch.testing.assert_close(delta, torch.tensor(exact, dtype=torch.float64), rtol=1e-8, atol=0)


@pytest.mark.parametrize("name", ["linear_qknorm", "linear_qknorm_rope", "linear_qknorm_rope_q"])
def test_qk_norm_is_rms_norm_of_each_head_and_then_the_rotation(name):
    x, w, weight, table = random(M, D), random(256, D), 1 + random(128, scale=0.25), random(M, 256)
    q = x @ w.T
    heads = F.rms_norm(q.unflatten(-1, (2, 128)), (128,), weight, 1e-6).flatten(-2)
    found = answer(name, {"x": x, "w": w, "gamma": weight.repeat(2), "table": table})
    torch.testing.assert_close(found["y"], turned(heads, table) if "rope" in name else heads, **CLOSE)
    if "q" in found:
        torch.testing.assert_close(found["q"], q, **CLOSE)


def test_rotations_are_products_of_complex_numbers():
    x, w, bias, table = random(M, D), random(N, D), random(N), random(M, N)
    positions, frequencies = torch.arange(M, dtype=torch.float64) * 100, random(N // 2).abs().repeat_interleave(2)
    given = {"x": x, "w": w, "bias": bias, "table": table, "positions": positions, "frequencies": frequencies}
    angle = positions[:, None] * frequencies[0::2]
    made = torch.stack((angle.cos(), angle.sin()), -1).flatten(-2)
    expected = {
        "linear_rope": turned(x @ w.T, table),
        "linear_bias_rope": turned(x @ w.T + bias, table),
        "linear_rope_positions": turned(x @ w.T, made),
    }
    for name, wanted in expected.items():
        torch.testing.assert_close(answer(name, given)["y"], wanted, **CLOSE)
