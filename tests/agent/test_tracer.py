"""The built-in tracer: what it answers, and what it says it cannot."""

import inspect
import math

import pytest
import torch
import torch.nn.functional as F
from codasmith.agent.models import make_model
from codasmith.agent.models.tracer import TracerError, answer, trace
from codasmith.primitives import evaluate, read
from codasmith.tasks import Tensor, Workload, task
from codasmith.tasks.inputs import draw
from codasmith.tasks.oracle import cast, oracle

LINEAR = {"gemm": "x @ w.T", "x": Tensor("M K"), "w": Tensor("N K", scale="K**-0.5")}
PAIRS = {**LINEAR, "w": Tensor("N K", scale="K**-0.5", layout="pairs")}
HALVES = {**LINEAR, "w": Tensor("2F K", scale="K**-0.5", layout="halves")}
HEADS = {**LINEAR, "w": Tensor("64H K", scale="K**-0.5"), "out": {"o": Tensor("M 64H")}}
OUT = {"o": Tensor("M N")}
VECTOR = Tensor("M", "f32")

IMPORTS = (
    "from codasmith.primitives import clamp, col_sum, column_index, cos, epilogue, exp, gelu, gelu_grad, gelu_tanh, "
    "head_sum, maximum, minimum, pack, relu_sq, rotate, row_absmax, row_index, row_lse, row_max, row_sum, rsqrt, "
    "select, sigmoid, silu, silu_grad, sin, softcap, softplus, sqrt, tanh, unpack, where\n"
)


def traces_to(traced, body, parameters=None):
    """The tracer's graph is the one of this epilogue, and its answer is a readable file that says the same."""
    names = ", ".join(["acc", *(traced.operands if parameters is None else parameters)])
    lines = "".join(f"    {line}\n" for line in body.strip().split("\n"))
    expected = read(f"{IMPORTS}@epilogue\ndef f({names}):\n{lines}", list(traced.operands.values()))
    source = answer(traced)
    assert read(source, list(traced.operands.values())).digest == expected.digest, source
    assert trace(traced).digest == expected.digest
    assert f"def {traced.name}(acc" in source


def test_bias_and_gelu():
    @task(**LINEAR, bias=Tensor("N"), out=OUT)
    def f(x, w, bias):
        return {"o": F.gelu(F.linear(x, w, bias))}

    traces_to(f, 'return {"o": gelu(acc + bias)}')


def test_both_gelus():
    @task(**LINEAR, out={"o": Tensor("M N"), "p": Tensor("M N")})
    def f(x, w):
        y = x @ w.T
        return {"o": F.gelu(y, approximate="tanh"), "p": F.gelu(y)}

    traces_to(f, 'return {"o": gelu_tanh(acc), "p": gelu(acc)}')


def test_scaled_sum_with_a_residual():
    @task(**LINEAR, c=Tensor("M N"), alpha=Tensor(""), beta=Tensor(""), out=OUT)
    def f(x, w, c, alpha, beta):
        return {"o": alpha * (x @ w.T) + beta * c}

    traces_to(f, 'return {"o": alpha * acc + beta * c}')


def test_addmm_with_constants():
    @task(**LINEAR, c=Tensor("M N"), out=OUT)
    def f(x, w, c):
        return {"o": torch.addmm(c, x, w.T, beta=2, alpha=0.5)}

    traces_to(f, 'return {"o": 0.5 * acc + 2 * c}')


def test_softcap():
    @task(**LINEAR, bias=Tensor("N"), residual=Tensor("M N"), cap=Tensor("", low=5.0, high=50.0), out=OUT)
    def f(x, w, bias, residual, cap):
        return {"o": cap * torch.tanh((x @ w.T + bias) / cap) + residual}

    traces_to(f, 'return {"o": softcap(acc + bias, cap) + residual}')


def test_softcap_by_a_constant():
    @task(**LINEAR, out=OUT)
    def f(x, w):
        return {"o": torch.tanh(x @ w.T / 30.0) * 30.0}

    traces_to(f, 'return {"o": softcap(acc, 30.0)}')


@pytest.mark.parametrize("form", ["mean", "sum", "rms_norm"])
def test_the_norm_of_each_head(form):
    @task(**HEADS, gamma=Tensor("64H"))
    def f(x, w, gamma):
        heads = (x @ w.T).unflatten(-1, (-1, 64))
        if form == "rms_norm":
            return {"o": F.rms_norm(heads, (64,), eps=1e-6).flatten(-2) * gamma}
        square = heads.pow(2)
        mean = square.mean(-1, keepdim=True) if form == "mean" else (square.sum(-1) / 64)[..., None]
        return {"o": (heads * torch.rsqrt(mean + 1e-6)).reshape(x.shape[0], -1) * gamma}

    traces_to(f, 'return {"o": acc * rsqrt(head_sum(acc * acc, 64) / 64 + 1e-6) * gamma}')


def test_rows_and_columns_by_their_numbers():
    @task(**LINEAR, out=OUT)
    def f(x, w):
        rows, columns = torch.arange(x.shape[0])[:, None], torch.arange(w.shape[0])
        return {"o": (x @ w.T).masked_fill(columns > rows, -1e30)}

    traces_to(f, 'return {"o": where(column_index(acc) > row_index(acc), -1e30, acc)}')


def test_row_scale():
    @task(**LINEAR, rstd=VECTOR, out=OUT)
    def f(x, w, rstd):
        return {"o": (x @ w.T) * rstd[:, None]}

    traces_to(f, 'return {"o": acc * rstd}')


@pytest.mark.parametrize("form", ["chunk", "split", "slices", "unflatten"])
def test_swiglu_of_halves(form):
    def parts(y):
        half = y.shape[-1] // 2
        if form == "slices":
            return y[:, :half], y[:, half:]
        if form == "unflatten":
            return y.unflatten(-1, (2, -1)).unbind(1)
        return y.chunk(2, -1) if form == "chunk" else y.split(half, -1)

    @task(**HALVES, rstd=VECTOR, bias=Tensor("2F", layout="halves"), out={"o": Tensor("M F")})
    def f(x, w, rstd, bias):
        gate, up = parts((x @ w.T) * rstd[:, None] + bias)
        return {"o": F.silu(gate) * up}

    traces_to(f, 'gate, up = unpack(acc * rstd + bias)\nreturn {"o": silu(gate) * up}')


@pytest.mark.parametrize("form", ["slices", "ellipsis", "unflatten", "view"])
def test_swiglu_of_pairs(form):
    def parts(y):
        if form == "slices":
            return y[:, ::2], y[:, 1::2]
        if form == "ellipsis":
            return y[..., 0::2], y[..., 1::2]
        if form == "view":
            y = y.view(y.shape[0], -1, 2)
            return y[..., 0], y[..., 1]
        return y.unflatten(-1, (-1, 2)).unbind(-1)

    @task(
        gemm="x @ w.T",
        x=Tensor("M K"),
        w=Tensor("2F K", layout="pairs"),
        bias=Tensor("2F", layout="pairs"),
        out={"o": Tensor("M F")},
    )
    def f(x, w, bias):
        gate, up = parts(x @ w.T + bias)
        return {"o": F.silu(gate) * up}

    traces_to(f, 'gate, up = unpack(acc + bias)\nreturn {"o": silu(gate) * up}')


def test_the_pre_activation_is_stored_as_halves():
    @task(**HALVES, rstd=VECTOR, out={"z": Tensor("M 2F", layout="halves"), "o": Tensor("M F")})
    def f(x, w, rstd):
        z = (x @ w.T) * rstd[:, None]
        gate, up = z.chunk(2, -1)
        return {"z": z, "o": F.silu(gate) * up}

    traces_to(f, 'z = acc * rstd\ngate, up = unpack(z)\nreturn {"z": z, "o": silu(gate) * up}')


def test_the_pre_activation_is_stored_as_pairs():
    @task(**HALVES, out={"z": Tensor("M 2F", layout="pairs"), "o": Tensor("M F")})
    def f(x, w):
        gate, up = (x @ w.T).chunk(2, -1)
        return {"z": torch.stack((gate, up), -1).flatten(-2), "o": F.silu(gate) * up}

    traces_to(f, 'gate, up = unpack(acc)\nreturn {"z": acc, "o": silu(gate) * up}')


@pytest.mark.parametrize("join", ["flatten", "reshape"])
def test_rope_from_a_table(join):
    @task(**PAIRS, table=Tensor("M N", layout="pairs"), out={"o": Tensor("M N", layout="pairs")})
    def f(x, w, table):
        y = x @ w.T
        a, b = y[..., 0::2], y[..., 1::2]
        cos, sin = table[..., 0::2], table[..., 1::2]
        pairs = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1)
        return {"o": pairs.flatten(-2) if join == "flatten" else pairs.reshape(y.shape)}

    traces_to(f, 'c, s = unpack(table)\nreturn {"o": rotate(acc, c, s)}')


def test_rope_from_positions():
    @task(**PAIRS, positions=VECTOR, frequencies=Tensor("N", "f32", layout="pairs"), out={"o": Tensor("M N")})
    def f(x, w, positions, frequencies):
        a, b = (x @ w.T).unflatten(-1, (-1, 2)).unbind(-1)
        angle = positions[:, None] * frequencies.unflatten(-1, (-1, 2))[:, 0]
        cos, sin = torch.cos(angle), torch.sin(angle)
        return {"o": torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)}

    traces_to(f, 'a, _ = unpack(frequencies)\nt = positions * a\nreturn {"o": rotate(acc, cos(t), sin(t))}')


def test_one_hot_by_comparing_columns():
    @task(**LINEAR, target=Tensor("M", "i64", low=0, high="N"), out=OUT)
    def f(x, w, target):
        logits = x @ w.T
        hot = torch.arange(w.shape[0]) == target[:, None]
        return {"o": logits.exp() - hot.to(logits.dtype)}

    traces_to(f, 'return {"o": exp(acc) - where(column_index(acc) == target, 1.0, 0.0)}')


def test_residual_and_partial_rms():
    @task(**LINEAR, residual=Tensor("M N"), gamma=Tensor("N"), out={**OUT, "g": Tensor("M N"), "s": VECTOR})
    def f(x, w, residual, gamma):
        h = x @ w.T + residual
        return {"o": h, "g": (h * gamma).to(h.dtype), "s": h.float().pow(2).sum(-1)}

    traces_to(f, 'h = acc + residual\nreturn {"o": h, "g": h * gamma, "s": row_sum(h, h)}')


def test_row_statistics():
    @task(**LINEAR, out={"a": VECTOR, "b": VECTOR, "c": VECTOR, "d": Tensor("N", "f32"), "e": VECTOR})
    def f(x, w):
        y = x @ w.T
        outputs = {"a": y.max(dim=-1).values, "b": y.abs().amax(1), "c": torch.sum(torch.exp(y), 1)}
        return {**outputs, "d": (y * y).sum(0), "e": torch.logsumexp(y, -1)}

    traces_to(
        f,
        'return {"a": row_max(acc), "b": row_absmax(acc), "c": row_sum(exp(acc)), "d": col_sum(acc, acc), '
        '"e": row_lse(acc)}',
    )


def test_a_sum_of_exponentials_beside_the_output():
    @task(**LINEAR, lse=VECTOR, out={**OUT, "s": VECTOR})
    def f(x, w, lse):
        p = torch.exp(x @ w.T - lse[:, None])
        return {"o": p, "s": p.sum(-1)}

    traces_to(f, 'p = exp(acc - lse)\nreturn {"o": p, "s": row_sum(p)}')


@pytest.mark.parametrize("form", ["gather", "index"])
def test_cross_entropy_parts(form):
    @task(**LINEAR, target=Tensor("M", "i64", low=0, high="N"), out={**OUT, "lse": VECTOR, "t": VECTOR})
    def f(x, w, target):
        y = x @ w.T
        if form == "gather":
            picked = y.float().gather(-1, target.clamp(min=0).long()[:, None]).squeeze(-1)
        else:
            picked = y[torch.arange(y.shape[0]), target]
        return {"o": y, "lse": torch.logsumexp(y.float(), -1), "t": picked}

    traces_to(f, 'return {"o": acc, "lse": row_lse(acc), "t": select(acc, target)}')


def test_swiglu_backward_of_pairs():
    @task(
        gemm="dy @ w",
        dy=Tensor("M K"),
        w=Tensor("K F"),
        z=Tensor("M 2F", layout="pairs"),
        out={"dz": Tensor("M 2F", layout="pairs"), "o": Tensor("M F"), "s": VECTOR},
    )
    def f(dy, w, z):
        d = dy @ w
        gate, up = z[..., 0::2], z[..., 1::2]
        dgate = d * up * (torch.sigmoid(gate) + gate * torch.sigmoid(gate) * (1 - torch.sigmoid(gate)))
        dz = torch.stack((dgate, d * F.silu(gate)), -1).flatten(-2)
        return {"dz": dz, "o": F.silu(gate) * up, "s": (z * dz).sum(-1)}

    traces_to(
        f,
        """
g, u = unpack(z)
dz = pack(acc * u * silu_grad(g), acc * silu(g))
return {"dz": dz, "o": silu(g) * u, "s": row_sum(z, dz)}""",
    )


def test_swiglu_backward_of_halves():
    @task(
        gemm="dy @ w",
        dy=Tensor("M K"),
        w=Tensor("K F"),
        z=Tensor("M 2F", layout="halves"),
        out={"dz": Tensor("M 2F", layout="halves")},
    )
    def f(dy, w, z):
        gate, up = z.chunk(2, -1)
        d = dy @ w
        return {"dz": torch.cat((d * up, d * gate), -1)}

    traces_to(f, 'g, u = unpack(z)\nreturn {"dz": pack(acc * u, acc * g)}')


def test_geglu_with_a_limit():
    @task(**HALVES, alpha=Tensor("", low=1.0, high=2.0), limit=Tensor("", low=0.2, high=0.5), out={"o": Tensor("M F")})
    def f(x, w, alpha, limit):
        gate, up = (x @ w.T).chunk(2, -1)
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return {"o": (up + 1) * (gate * torch.sigmoid(alpha * gate))}

    traces_to(
        f,
        """
g, u = unpack(acc)
g = minimum(g, limit)
return {"o": (clamp(u, -limit, limit) + 1) * (g * sigmoid(alpha * g))}""",
    )


@pytest.mark.parametrize(
    "spelt, name",
    [
        (lambda y: y * torch.sigmoid(y), "silu"),
        (lambda y: y / (1 + torch.exp(-y)), "silu"),
        (lambda y: 1 / torch.sqrt(y), "rsqrt"),
        (lambda y: torch.relu(y) ** 2, "relu_sq"),
        (lambda y: torch.log(1 + torch.exp(y)), "softplus"),
        (lambda y: y * 0.5 * (1 + torch.erf(y / math.sqrt(2))), "gelu"),
        (lambda y: 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))), "gelu_tanh"),
        (
            lambda y: 0.5 * (1 + torch.erf(y / 2**0.5)) + y * torch.exp(-0.5 * y * y) / math.sqrt(2 * math.pi),
            "gelu_grad",
        ),
        (lambda y: torch.sigmoid(y) * (1 + y * (1 - torch.sigmoid(y))), "silu_grad"),
    ],
)
def test_primitives_that_are_spelt_out_are_found(spelt, name):
    @task(**LINEAR, pre=Tensor("M N", low=0.5, high=1.5), out=OUT)
    def f(x, w, pre):
        return {"o": (x @ w.T) * spelt(pre)}

    assert [n.op for n in trace(f).nodes] == ["acc", "operand", name, "mul"]


def test_what_is_used_elsewhere_is_not_computed_twice():
    @task(**LINEAR, out={**OUT, "s": Tensor("M N")})
    def f(x, w):
        y = x @ w.T
        s = torch.sigmoid(y)
        return {"o": y * s, "s": s}

    traces_to(f, 's = sigmoid(acc)\nreturn {"o": acc * s, "s": s}')


def test_conditions():
    @task(**LINEAR, c=Tensor("M N"), out={**OUT, "p": Tensor("M N"), "q": Tensor("M N")})
    def f(x, w, c):
        y = x @ w.T
        inside = (y > -1) & (y < c)
        return {"o": torch.where(inside, y, 0.0), "p": y.masked_fill(y <= c, -1e4), "q": (y > 0).to(y.dtype) * c}

    traces_to(
        f,
        """
o = where((acc > -1) & (acc < c), acc, 0)
return {"o": o, "p": where(acc <= c, -1e4, acc), "q": where(acc > 0, 1, 0) * c}""",
    )


def test_casts_and_in_place_arithmetic_say_nothing():
    @task(**LINEAR, bias=Tensor("N"), out=OUT)
    def f(x, w, bias):
        y = (x.float() @ w.T.to(torch.float32)).type_as(bias)
        y += bias
        y.mul_(2)
        return {"o": y.to(dtype=x.dtype).contiguous()}

    traces_to(f, 'return {"o": (acc + bias) * 2}')


def test_functions_that_torch_spells_out():
    @task(**LINEAR, out={"o": Tensor("M N"), "p": Tensor("M N")})
    def f(x, w):
        y = x @ w.T
        return {"o": F.leaky_relu(y, 0.1), "p": F.relu6(y)}

    assert {n.op for n in trace(f).nodes} >= {"where", "gt"}


def test_an_output_that_accumulates_gets_what_is_added():
    @task(
        gemm="dy.T @ x",
        dy=Tensor("K M"),
        x=Tensor("K N"),
        scale=Tensor(""),
        r=Tensor("M N"),
        dw=Tensor("M N", "f32"),
        out={"dw": Tensor("M N", "f32")},
        accumulates="dw",
    )
    def f(dy, x, scale, r, dw):
        return {"dw": dw + scale * (dy.T @ x) - r}

    traces_to(f, 'return {"dw": scale * acc - r}')


def test_the_answer_computes_what_the_reference_does():
    """Beside the tracer's own check: on other sizes, in the reference's own layout."""

    @task(**HALVES, bias=Tensor("2F", layout="halves"), out={"o": Tensor("M F"), "s": VECTOR})
    def f(x, w, bias):
        gate, up = (x @ w.T + bias).chunk(2, -1)
        o = F.silu(gate) * up
        return {"o": o, "s": o.square().sum(-1)}

    inputs = cast(draw(f, Workload(sizes={"M": 5, "K": 8, "F": 3}, seed=3)), torch.float64)
    order = torch.tensor([0, 3, 1, 4, 2, 5])
    acc = (inputs["x"] @ inputs["w"].T)[:, order]
    got = evaluate(read(answer(f), list(f.operands.values())), acc, {"bias": inputs["bias"][order]})
    expected = oracle(f, inputs)
    for name in expected:
        assert torch.allclose(got[name], expected[name], rtol=1e-12)


def test_the_model_answers_with_the_traced_source():
    @task(**LINEAR, out=OUT)
    def f(x, w):
        return {"o": F.silu(x @ w.T)}

    model = make_model("builtin:tracer")
    model.prepare(f)
    assert "silu(acc)" in model.answer([], max_tokens=1).text


# --- what it cannot do ------------------------------------------------------------------------------

DEFAULT = {**LINEAR, "out": OUT}
ROW = {**LINEAR, "out": {"o": VECTOR}}
TARGET = {**LINEAR, "target": Tensor("M", "i64", low=0, high="N")}
TWO = {**LINEAR, "a": Tensor("M N"), "out": OUT}

REFUSED = {
    "softmax": (DEFAULT, lambda x, w: torch.softmax(x @ w.T, -1), "torch.softmax needs the whole row"),
    "log_softmax": (DEFAULT, lambda x, w: F.log_softmax(x @ w.T, -1), "torch.log_softmax needs the whole row"),
    "layer_norm": (DEFAULT, lambda x, w: F.layer_norm(x @ w.T, (w.shape[0],)), "layer_norm needs the whole row"),
    "mean": (ROW, lambda x, w: (x @ w.T).mean(-1), "torch.mean divides"),
    "norm": (ROW, lambda x, w: (x @ w.T).norm(dim=-1), "torch.linalg.vector_norm takes the root"),
    "std": (ROW, lambda x, w: (x @ w.T).std(-1), "torch.std needs the whole row"),
    "minimum": (ROW, lambda x, w: (x @ w.T).amin(-1), "torch.amin has no primitive"),
    "argmax": (ROW, lambda x, w: (x @ w.T).max(-1).indices.double(), "torch.max gives positions"),
    "column lse": ({**LINEAR, "out": {"o": Tensor("N", "f32")}}, lambda x, w: (x @ w.T).logsumexp(0), "runs over rows"),
    "reduction used": (
        {**ROW, "out": {"o": VECTOR}}, lambda x, w: (x @ w.T).square().sum(-1) + 1e-5, "torch.add cannot be written"),
    "deferred norm": (
        DEFAULT, lambda x, w: (x @ w.T) * torch.rsqrt((x @ w.T).square().sum(-1, True)), "torch.rsqrt cannot"),
    "loss": (
        {**TARGET, "out": {"o": VECTOR}}, lambda x, w, target: F.cross_entropy(x @ w.T, target, reduction="none"),
        "torch.log_softmax needs the whole row"),
    "loss of parts": (
        {**TARGET, "out": {"o": VECTOR}},
        lambda x, w, target: (x @ w.T).logsumexp(-1) - (x @ w.T).gather(1, target[:, None])[:, 0],
        "torch.sub cannot be written in an epilogue: sub is applied to the result of a reduction"),
    "sum of everything": (DEFAULT, lambda x, w: (x @ w.T) * (x @ w.T).sum(), "torch.sum reduces a vector, or all"),
    "cumulative sum": (DEFAULT, lambda x, w: (x @ w.T).cumsum(-1), "torch.cumsum needs the whole row"),
    "dropout": (DEFAULT, lambda x, w: torch.bernoulli(torch.sigmoid(x @ w.T)), "draws random numbers"),
    "second product": (
        DEFAULT, lambda x, w: (x @ w.T) @ w @ w.T, "torch.mm multiplies matrices other than x and w"),
    "changed before the product": (DEFAULT, lambda x, w: (x * 2) @ w.T, "torch.mul changes x before the product"),
    "norm before the product": (
        {**DEFAULT}, lambda x, w: (x * x.square().mean(-1, True).rsqrt()) @ w.T, "torch.pow changes x"),
    "another product": (
        {"gemm": "x @ w", "x": Tensor("M K"), "w": Tensor("K N"), "out": OUT}, lambda x, w: (w.T @ x.T).T,
        "torch.mm computes w.T @ x.T, and the task declares the product x @ w"),
    "einsum": (DEFAULT, lambda x, w: torch.einsum("mk,nk->mn", x, w), "write the product as a @ b"),
    "transposed": (TWO, lambda x, w, a: (x @ w.T) + (a.T @ a)[:1, :], "torch.permute transposes"),
    "left half": (
        {**LINEAR, "w": Tensor("2F K"), "out": {"o": Tensor("M F")}}, lambda x, w: (x @ w.T).chunk(2, -1)[0],
        "torch.split takes the left or right half of columns that do not lie in halves; declare layout='halves'"),
    "alternating columns of halves": (
        {**HALVES, "out": {"o": Tensor("M F")}}, lambda x, w: (x @ w.T)[:, ::2], "torch.slice takes alternating"),
    "bias without layout": (
        {**HALVES, "bias": Tensor("2F"), "out": {"o": Tensor("M F")}},
        lambda x, w, bias: (x @ w.T + bias).chunk(2, -1)[0], "torch.add joins columns that lie as halves"),
    "output without layout": (
        {**HALVES, "out": {"o": Tensor("M 2F")}}, lambda x, w: x @ w.T,
        "output o lie as halves in the reference; declare layout='halves'"),
    "output with the wrong layout": (
        {**LINEAR, "out": {"o": Tensor("M N", layout="halves")}}, lambda x, w: x @ w.T, "no halves in the reference"),
    "target among halves": (
        {**HALVES, "target": Tensor("M", "i64", low=0, high="F"), "out": {"o": VECTOR}},
        lambda x, w, target: (x @ w.T).gather(-1, target[:, None])[:, 0], "torch.gather picks a column by number"),
    "first columns": (
        {**LINEAR, "w": Tensor("2F K"), "out": {"o": Tensor("M F")}},
        lambda x, w: (x @ w.T)[:, 1 : 1 + w.shape[0] // 2], "torch.slice takes columns other than alternating"),
    "shifted columns": (DEFAULT, lambda x, w: torch.roll(x @ w.T, 1, -1), "torch.roll has no counterpart"),
    "narrow heads": (
        DEFAULT, lambda x, w: ((x @ w.T).unflatten(-1, (-1, 4)) * 2).flatten(-2), "torch.view reshapes columns into"),
    "heads of halves": (
        {**LINEAR, "w": Tensor("128F K", layout="halves"), "out": {"o": Tensor("M 128F", layout="halves")}},
        lambda x, w: (x @ w.T).unflatten(-1, (-1, 64)).flatten(-2), "heads of whole 32s up to 256 columns"),
    "softmax of a head": (
        {**HEADS}, lambda x, w: (x @ w.T).unflatten(-1, (-1, 64)).softmax(-1).flatten(-2), "needs the whole row"),
    "largest of a head": (
        {**HEADS}, lambda x, w: (lambda h: (h * h.amax(-1, True)).flatten(-2))((x @ w.T).unflatten(-1, (-1, 64))),
        "torch.amax reduces over each head, for which there is a sum alone (head_sum)"),
    "some rows": (DEFAULT, lambda x, w: torch.cat(((x @ w.T)[:4], (x @ w.T)[4:]), 0), "takes some of the rows"),
    "writes into columns": (
        DEFAULT, lambda x, w: torch.empty_like(x @ w.T).copy_(x @ w.T), "in place; build the result as an expression"),
    "positions": (
        DEFAULT, lambda x, w: (x @ w.T) * torch.arange(1, w.shape[0] + 1), "torch.arange makes positions"),
    "its own tensor": (
        {**DEFAULT}, lambda x, w: (x @ w.T) * torch.tensor([2.0] * w.shape[0]), "makes a tensor of shape"),
    "size as a number": (
        DEFAULT, lambda x, w: (x @ w.T) / x.shape[1] ** 0.5, "uses a size as a number"),
    "power": (DEFAULT, lambda x, w: (x @ w.T) ** 5, "torch.pow has an exponent other than"),
    "floor": (DEFAULT, lambda x, w: torch.floor(x @ w.T), "torch.floor has no counterpart"),
    "round to int": (DEFAULT, lambda x, w: (x @ w.T).int().double(), "torch.to makes whole numbers"),
    "column numbers computed with": (
        {**TARGET, "out": OUT}, lambda x, w, target: (x @ w.T) * target[:, None], "computes with column numbers"),
    "branch on a value": (
        DEFAULT, lambda x, w: x @ w.T if x.sum() > 0 else -(x @ w.T), "makes a Python number of a tensor"),
    "not of the product": (TWO, lambda x, w, a: 2 * a, "never uses the product"),
    "constant": (DEFAULT, lambda x, w: torch.ones_like(x @ w.T), "never uses the product"),
    "one value a row": (TWO, lambda x, w, a: (a * 0).expand(a.shape) + (x @ w.T)[:, :1], "takes columns other than"),
    "raises": (DEFAULT, lambda x, w: x @ w, "mat1 and mat2 shapes cannot be multiplied"),
    "another shape": (DEFAULT, lambda x, w: w @ x.T, "returns o of shape"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_it_says_what_it_cannot_do(case):
    declaration, function, words = REFUSED[case]
    names = [n for n in declaration if n not in ("gemm", "out")]

    def reference(*args, **kwargs):
        return {"o": function(*args, **kwargs)}

    reference.__signature__ = inspect.signature(function)
    assert list(reference.__signature__.parameters) == names
    refused = task(**declaration, name="f")(reference)
    with pytest.raises(TracerError) as caught:
        trace(refused)
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_an_accumulated_output_may_only_be_added_to():
    declaration = {**LINEAR, "dx": Tensor("M N"), "out": {"dx": Tensor("M N")}, "accumulates": "dx"}

    @task(**declaration)
    def scaled(x, w, dx):
        return {"dx": 2 * dx + x @ w.T}

    @task(**declaration)
    def replaced(x, w, dx):
        return {"dx": x @ w.T}

    @task(**declaration)
    def used(x, w, dx):
        return {"dx": dx + dx * (x @ w.T)}

    for wrong in (scaled, replaced, used):
        with pytest.raises(TracerError, match="dx"):
            trace(wrong)
