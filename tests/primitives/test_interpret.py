"""The interpreter against the same epilogues written by hand in torch, float64, M and N equal on purpose."""

import dataclasses
import weakref

import pytest
import torch
import torch.nn.functional as F
from codasmith.primitives import REGISTRY, GraphError, Operand, evaluate, read
from codasmith.primitives.graph import Builder

M = N = 8
IMPORTS = (
    "from codasmith.primitives import clamp, col_sum, column_index, epilogue, exp, gelu, gelu_grad, head_sum, minimum\n"
    "from codasmith.primitives import pack, row_absmax, rsqrt, row_index, row_lse, row_sum, select, sigmoid, silu\n"
    "from codasmith.primitives import silu_grad, softcap, unpack, rotate, where\n"
)


@pytest.fixture
def draw():
    generator = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator)


def run(body, acc, given, kinds):
    """kinds: name -> "row", "col", "tile", "half", "double", "scalar" or "index"."""
    grids = {
        "row": (False, 2), "col": (True, 0), "tile": (True, 2), "half": (True, 1), "double": (True, 4),
        "scalar": (False, 0), "index": (True, 0),
    }  # fmt: skip
    operands = [Operand(name=n, rows=grids[k][0], cols=grids[k][1], index=k == "index") for n, k in kinds.items()]
    lines = "".join(f"    {line}\n" for line in body.strip().split("\n"))
    source = f"{IMPORTS}@epilogue\ndef f({', '.join(['acc', *kinds])}):\n{lines}"
    return evaluate(read(source, operands), acc, given)


def close(outputs, **expected):
    assert set(outputs) == set(expected)
    for name, value in expected.items():
        assert outputs[name].shape == value.shape
        assert torch.allclose(outputs[name], value, rtol=1e-12, atol=1e-12), name


def test_bias_and_gelu(draw):
    acc, bias = draw(M, N), draw(N)
    out = run('return {"o": gelu(acc + bias)}', acc, {"bias": bias}, {"bias": "row"})
    close(out, o=F.gelu(acc + bias[None, :]))


def test_a_row_and_a_column_vector_of_equal_length_are_told_apart(draw):
    acc, row, col = draw(M, N), draw(N), draw(M)
    out = run('return {"o": acc * col + row}', acc, {"row": row, "col": col}, {"row": "row", "col": "col"})
    close(out, o=acc * col[:, None] + row[None, :])


def test_scaled_sum_with_scalars(draw):
    acc, c = draw(M, N), draw(M, N)
    given = {"c": c, "alpha": 0.5, "beta": torch.tensor([2.0])}
    out = run('return {"o": alpha * acc + beta * c}', acc, given, {"c": "tile", "alpha": "scalar", "beta": "scalar"})
    close(out, o=0.5 * acc + 2 * c)


def test_swiglu_and_its_pre_activation(draw):
    acc, rstd = draw(M, N), draw(M)
    body = 'z = acc * rstd\ngate, up = unpack(z)\nreturn {"z": z, "o": silu(gate) * up}'
    z = acc * rstd[:, None]
    close(run(body, acc, {"rstd": rstd}, {"rstd": "col"}), z=z, o=F.silu(z[:, ::2]) * z[:, 1::2])


def test_geglu_with_a_limit(draw):
    acc = draw(M, N) * 4
    body = 'g, u = unpack(acc)\ng = minimum(g, 2)\nu = clamp(u, -2, 2)\nreturn {"o": (u + 1) * g * sigmoid(1.702 * g)}'
    g, u = acc[:, ::2].clamp(max=2), acc[:, 1::2].clamp(-2, 2)
    close(run(body, acc, {}, {}), o=(u + 1) * g * torch.sigmoid(1.702 * g))


def test_geglu(draw):
    acc, bias = draw(M, N), draw(N)
    body = 'g, u = unpack(acc + bias)\nreturn {"o": gelu(g) * u}'
    y = acc + bias
    close(run(body, acc, {"bias": bias}, {"bias": "row"}), o=F.gelu(y[:, ::2]) * y[:, 1::2])


def test_rope_from_a_table(draw):
    acc, table = draw(M, N), draw(M, N)
    out = run('c, s = unpack(table)\nreturn {"o": rotate(acc, c, s)}', acc, {"table": table}, {"table": "tile"})
    turned = torch.view_as_complex(acc.reshape(M, -1, 2)) * torch.view_as_complex(table.reshape(M, -1, 2))
    close(out, o=torch.view_as_real(turned).reshape(M, N))


def test_residual_and_sum_of_squares(draw):
    acc, res, gamma = draw(M, N), draw(M, N), draw(N)
    body = 'h = acc + res\nreturn {"h": h, "n": h * gamma, "s": row_sum(h, h)}'
    h = acc + res
    out = run(body, acc, {"res": res, "gamma": gamma}, {"res": "tile", "gamma": "row"})
    close(out, h=h, n=h * gamma, s=h.square().sum(1))


def test_cross_entropy(draw):
    acc, rstd, target = draw(M, N), draw(M), torch.randint(0, N, (M,), generator=torch.Generator().manual_seed(1))
    body = 'y = acc * rstd\nreturn {"y": y, "lse": row_lse(y), "t": select(y, target)}'
    out = run(body, acc, {"rstd": rstd, "target": target.int()}, {"rstd": "col", "target": "index"})
    y = acc * rstd[:, None]
    close(out, y=y, lse=y.logsumexp(1), t=y[torch.arange(M), target])
    assert torch.allclose(out["lse"] - out["t"], F.cross_entropy(y, target, reduction="none"))


def test_swiglu_backward_is_autograds(draw):
    acc, z = draw(M, N), draw(M, 2 * N).requires_grad_()
    body = """
g, u = unpack(z)
dg = acc * u * silu_grad(g)
du = acc * silu(g)
return {"dz": pack(dg, du), "o": silu(g) * u, "s": row_sum(g * dg + u * du)}"""
    o = F.silu(z[:, ::2]) * z[:, 1::2]
    (dz,) = torch.autograd.grad(o, z, acc)
    out = run(body, acc, {"z": z.detach()}, {"z": "double"})
    close(out, dz=dz, o=o.detach(), s=(z * dz).sum(1).detach())


def test_gelu_backward_with_its_bias_gradient(draw):
    acc, pre = draw(M, N), draw(M, N).requires_grad_()
    (dx,) = torch.autograd.grad(F.gelu(pre), pre, acc)
    out = run(
        'dx = acc * gelu_grad(pre)\nreturn {"dx": dx, "db": col_sum(dx)}', acc, {"pre": pre.detach()}, {"pre": "tile"}
    )
    close(out, dx=dx, db=dx.sum(0))


def test_softcap_exponentials_and_magnitudes(draw):
    acc, half = draw(M, N), draw(M, N // 2)
    body = 'g, u = unpack(softcap(acc, 3.0))\nreturn {"o": g * half, "e": row_sum(exp(u)), "m": row_absmax(acc)}'
    y = 3 * torch.tanh(acc / 3)
    out = run(body, acc, {"half": half}, {"half": "half"})
    close(out, o=y[:, ::2] * half, e=y[:, 1::2].exp().sum(1), m=acc.abs().amax(1))


def test_it_computes_in_the_accumulators_dtype(draw):
    acc = draw(M, N).float()
    out = run('return {"o": silu(acc * v)}', acc, {"v": draw(M)}, {"v": "col"})
    assert out["o"].dtype == torch.float32


def test_outputs_never_share_memory_with_inputs(draw):
    acc, res = draw(M, N), draw(M, N)
    out = run('a, b = unpack(res)\nreturn {"o": acc, "p": res + 0, "q": a}', acc, {"res": res}, {"res": "tile"})
    for value in out.values():
        value.zero_()
    assert acc.abs().sum() > 0
    assert res.abs().sum() > 0


@pytest.mark.parametrize(
    "operands, words",
    [
        ({}, "v is missing"),
        ({"v": torch.zeros(M + 1)}, "v has shape [9], and [8]"),
        ({"v": torch.zeros(M, 1)}, "v has shape [8, 1], and [8]"),
        ({"v": 1.0}, "v has shape [], and [8]"),
    ],
)
def test_operands_that_do_not_fit_are_named(draw, operands, words):
    with pytest.raises(GraphError, match="operand") as caught:
        run('return {"o": acc * v}', draw(M, N), operands, {"v": "col"})
    assert words in str(caught.value)


def test_comparing_column_numbers_with_a_target_makes_a_one_hot_row(draw):
    acc, target = draw(M, N), torch.tensor([7, 0, 3, 3, -100, 1, 2, 100])
    body = 'return {"o": where(column_index(acc) == target, acc - 1.0, acc)}'
    out = run(body, acc, {"target": target}, {"target": "index"})
    expected = acc.clone()
    for m, n in enumerate(target.tolist()):
        if 0 <= n < N:
            expected[m, n] -= 1
    close(out, o=expected)


def test_coordinates_make_a_causal_mask(draw):
    acc = draw(M, N)
    out = run('return {"o": where(column_index(acc) <= row_index(acc), acc, -1e30)}', acc, {}, {})
    close(out, o=torch.where(torch.tril(torch.ones(M, N)) > 0, acc, torch.tensor(-1e30, dtype=torch.float64)))


def test_column_numbers_of_pairs_count_the_pairs(draw):
    acc, z = draw(M, N), draw(M, 2 * N)
    body = """even, odd = unpack(acc)
return {"o": even * column_index(odd), "e": odd + row_index(even)}"""
    out = run(body, acc, {}, {})
    number = torch.arange(N // 2, dtype=torch.float64)
    close(out, o=acc[:, 0::2] * number, e=acc[:, 1::2] + torch.arange(M, dtype=torch.float64)[:, None])
    out = run('return {"o": z + column_index(z)}', acc, {"z": z}, {"z": "double"})
    close(out, o=z + torch.arange(2 * N, dtype=torch.float64))


def test_rows_without_a_target_are_told_by_its_value(draw):
    acc, target = draw(M, N), torch.tensor([7, 0, 3, 3, -100, 1, 2, -100])
    out = run('return {"o": where(target >= 0, acc, 0.0)}', acc, {"target": target}, {"target": "index"})
    close(out, o=acc * (target >= 0)[:, None])


@pytest.mark.parametrize("body", ["column_index(row)", "row_index(row)", "column_index(1.0)", "column_index(acc > 0)"])
def test_coordinates_need_a_value_that_fills_the_tile(draw, body):
    with pytest.raises(GraphError, match=r"fills the tile|a condition"):
        run(f'return {{"o": acc + {body}}}', draw(M, N), {"row": draw(N)}, {"row": "row"})


def test_column_numbers_are_not_computed_with(draw):
    with pytest.raises(GraphError, match="compare them"):
        run('return {"o": acc + target}', draw(M, N), {"target": torch.arange(M)}, {"target": "index"})


def test_head_sums_make_a_norm_of_each_head(draw):
    acc, gamma = draw(M, 96), draw(96)
    body = 'return {"o": acc * rsqrt(head_sum(acc * acc, 32) / 32 + 1e-6) * gamma}'
    out = run(body, acc, {"gamma": gamma}, {"gamma": "row"})
    close(out, o=F.rms_norm(acc.unflatten(-1, (3, 32)), (32,), eps=1e-6).flatten(-2) * gamma)


def test_a_head_sum_may_be_unpacked_and_reduced(draw):
    acc = draw(M, 64)
    body = """s = head_sum(acc, 64)
a, b = unpack(s * acc)
return {"o": a - b, "t": row_sum(s)}"""
    total = acc.sum(-1, keepdim=True)
    close(run(body, acc, {}, {}), o=total * (acc[:, 0::2] - acc[:, 1::2]), t=64 * total[:, 0])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("head_sum(acc, 24)", "head_dim of head_sum is 24. Write a number, a multiple of 32"),
        ("head_sum(acc, 512)", "multiple of 32 up to 256"),
        ("head_sum(acc, acc)", "head_dim of head_sum is a value"),
        ("head_sum(row, 32)", "value as wide as the accumulator"),
        ("head_sum(pack(acc, acc), 32)", "Take it before unpack"),
    ],
)
def test_head_sums_that_have_no_meaning(draw, body, message):
    with pytest.raises(GraphError, match=message):
        run(f'return {{"o": acc + {body}}}', draw(M, 64), {"row": draw(64)}, {"row": "row"})


def test_an_accumulator_of_no_whole_heads_is_refused(draw):
    with pytest.raises(GraphError, match="8 columns, which are no whole heads of 32"):
        run('return {"o": acc + head_sum(acc, 32)}', draw(M, N), {}, {})


def test_of_a_long_epilogues_values_only_few_are_held_at_a_time(monkeypatch):
    made, most = [], [0]
    multiply = REGISTRY["mul"]

    def watched(*args):
        value = multiply.torch(*args)
        made.append(weakref.ref(value))
        most.append(sum(one() is not None for one in made))
        return value

    builder = Builder()
    value = builder.acc()
    for _ in range(100):
        value = builder.add("mul", (value, value))
    graph = builder.finish({"y": value})
    expected = evaluate(graph, torch.ones(2, 3), {})["y"]
    monkeypatch.setitem(REGISTRY, "mul", dataclasses.replace(multiply, torch=watched))
    assert torch.equal(evaluate(graph, torch.ones(2, 3), {})["y"], expected) and bool((expected == 1).all())
    assert len(made) == 100 and max(most) <= 3
