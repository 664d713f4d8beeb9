"""Row kernels: what they mean is the derivative or formula that they are named after, and the kernels compute it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from codasmith.templates.rows import NAMES, row_kernel

HERE = Path(__file__).parent


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def table(rows, columns):
    angle = 6 * random(rows, columns // 2)
    return torch.stack((angle.cos(), angle.sin()), -1).flatten(-2)


def rotated(z, turn):
    a, b = z.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = turn.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def agrees(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-11, atol=1e-11)


def test_every_kernel_is_here():
    assert NAMES == ("column_sum", "dlogits", "qknorm_rope_bwd", "qkv_rope_bwd", "rms_scale", "rope_bwd")
    with pytest.raises(ValueError, match="no row kernel 'softmax'; known are column_sum, dlogits"):
        row_kernel("softmax")


def test_rope_bwd_is_the_derivative_of_the_rotation_and_leaves_the_statistic_of_what_came_before_it():
    z, turn, dy = random(5, 12).requires_grad_(), table(5, 12), random(5, 12) + 1
    y = rotated(z, turn)
    (wanted,) = torch.autograd.grad(y, z, dy)
    dz, zdz = row_kernel("rope_bwd").meaning(dy, y.detach(), turn)
    agrees(dz, wanted)
    agrees(zdz, (z.detach() * wanted).sum(-1))


def test_qkv_rope_bwd_is_rope_bwd_of_the_parts_side_by_side():
    dq, dk, dv, turn = random(5, 24) + 1, random(5, 8), random(5, 8) - 1, table(5, 4)
    y = random(5, 40)
    still = torch.tensor((1.0, 0.0), dtype=torch.float64).repeat(4).expand(5, -1)
    wanted = row_kernel("rope_bwd").meaning(torch.cat((dq, dk, dv), 1), y, torch.cat((turn.repeat(1, 8), still), 1))
    for got, exact in zip(row_kernel("qkv_rope_bwd").meaning(dq, dk, dv, y, turn), wanted, strict=True):
        agrees(got, exact)


def test_qknorm_rope_bwd_is_the_derivative_of_norm_and_rotation_and_passes_values():
    head, eps = 8, 1e-3
    q, dy, turn = random(5, 3 * head).requires_grad_(), random(5, 3 * head) + 1, table(5, 3 * head)
    plain = torch.zeros(3, head, dtype=torch.float64)
    gamma = 1 + random(3, head) / 4
    plain[2], gamma[2] = 1, 0
    turn[:, 2 * head :] = torch.tensor((1.0, 0.0)).repeat(head // 2)
    gamma = gamma.flatten().requires_grad_()
    heads = q.unflatten(-1, (3, head))
    rstd = torch.rsqrt(heads.square().mean(-1, keepdim=True) + eps)
    y = rotated((heads * (rstd * gamma.view(3, head) + plain)).flatten(-2), turn)
    agrees(y[:, 2 * head :], q[:, 2 * head :])
    dq, dgamma = torch.autograd.grad(y, (q, gamma), dy)
    got = row_kernel("qknorm_rope_bwd").meaning(
        dy, q.detach(), gamma.detach(), plain.flatten(), turn, eps, head_dim=head
    )
    agrees(got[0], dq)
    agrees(got[1], dgamma)
    agrees(got[0][:, 2 * head :], dy[:, 2 * head :])


def test_dlogits_is_the_derivative_of_cross_entropy_and_zero_where_the_loss_is_ignored():
    logits, target = random(6, 9).requires_grad_(), torch.tensor([0, 8, 3, -100, 4, 4])
    weight = torch.tensor([1.0, 2.0, 0.5, 0.0, -1.0, 3.0], dtype=torch.float64)
    losses = torch.nn.functional.cross_entropy(logits, target, ignore_index=-100, reduction="none")
    (wanted,) = torch.autograd.grad(losses, logits, weight)
    lse = torch.logsumexp(logits.detach(), -1)
    agrees(row_kernel("dlogits").meaning(logits.detach(), lse, target, weight), wanted)


def test_rms_scale_and_column_sum_are_the_norms_two_parts_and_a_sum():
    h, gamma = random(5, 12), random(12)
    g, rstd = row_kernel("rms_scale").meaning(h, gamma, 1e-3)
    agrees(g * rstd[:, None], torch.nn.functional.rms_norm(h, (12,), gamma, 1e-3))
    agrees(row_kernel("column_sum").meaning(h), h.sum(0))


def test_the_kernels_agree_with_their_meanings_in_tritons_interpreter():
    """In a process of its own, since Triton decides when it is imported how it runs."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, str(HERE / "rows_agree.py"), "cpu"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == list(NAMES)


@pytest.mark.parametrize("name", ["rope_bwd", "column_sum"])
def test_a_tensor_that_is_not_contiguous_is_refused(name):
    t = random(8, 6).T
    arguments = (t, t, t, t, t) if name == "rope_bwd" else (t, t[0])
    with pytest.raises(
        ValueError, match=rf"{name} reads contiguous tensors, and one of shape \[6, 8\].*contiguous\(\)"
    ):
        row_kernel(name).launch(*arguments)


def test_heads_of_a_width_that_the_kernel_has_not_are_refused():
    x, v = random(4, 96), random(96)
    with pytest.raises(ValueError, match="96 columns in heads of 96; use another head_dim"):
        row_kernel("qknorm_rope_bwd").launch(x, x, v, v, x, 1e-6, x, v, head_dim=96)


SIGNATURES = {
    "rope_bwd": ({"zdz_at": "*fp32"}, {"BLOCK": 1024, "TURNS": 6}),
    "qkv_rope_bwd": ({"zdz_at": "*fp32", "queries": "i32", "keys": "i32"}, {"BLOCK": 1024, "head": 128}),
    "rms_scale": ({"rstd_at": "*fp32"}, {"BLOCK": 2048, "TURNS": 2}),
    "dlogits": ({"lse_at": "*fp32", "dloss_at": "*fp32", "target_at": "*i64"}, {"BLOCK": 4096}),
    "qknorm_rope_bwd": ({"parts_at": "*fp32", "rows": "i32"}, {"HEAD": 128, "ROWS": 16, "STEPS": 4}),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_kernel_compiles_for_hopper_and_moves_16_bytes_at_a_time(name, tmp_path, monkeypatch):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    function = import_module(f"codasmith.templates.rows.{name}")._kernel
    vectors, numbers = SIGNATURES[name]
    kinds = {"columns": "i32", "eps": "fp32", **vectors, **dict.fromkeys(numbers, "constexpr")}
    names = function.arg_names
    widths = ("columns", "queries", "keys")
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if n in widths or n not in kinds}
    source = ASTSource(
        fn=function,
        signature={n: kinds.get(n, "*bf16") for n in names},
        constexprs={(names.index(n),): v for n, v in numbers.items()},
        attrs=aligned,
    )
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert "ld.global.v4.b32" in ptx and "st.global.v4.b32" in ptx
