"""The mistakes that weak authors make most, each by an author who makes it: what it is told says what to write."""

import pytest
import torch
from codasmith.gate.interpret import interpret_stage
from codasmith.gate.read import read_stage

HEAD = "from codasmith.primitives import epilogue, exp, gelu, log, pack, row_sum, silu, unpack, where\n\n\n@epilogue\n"


def written(parameters, *lines, head=HEAD):
    return f"{head}def f({parameters}):\n" + "".join(f"    {line}\n" for line in lines)


def swiglu(*lines, parameters="acc, rstd", head=HEAD):
    return "rmsnorm_swiglu", written(parameters, *lines, head=head)


def bias(*lines, head=HEAD):
    return "linear_bias", written("acc, bias", *lines, head=head)


SPLIT = "gate, up = unpack(acc * rstd)"
GIVEN = "return {'o': silu(gate) * up}"

# mistake -> (task, source or whole answer), what the feedback must say
CLOSED = {
    "torch's functions": (
        swiglu(SPLIT, "return {'o': F.silu(gate) * up}", head="import torch.nn.functional as F\n" + HEAD),
        "from codasmith.primitives import silu",
    ),
    "torch without an import": (
        swiglu(SPLIT, "return {'o': gate * torch.sigmoid(gate) * up}"),
        "Write sigmoid(x) after from codasmith.primitives import sigmoid",
    ),
    "a method of a tensor": (swiglu("gate, up = (acc * rstd).chunk(2, -1)", GIVEN), "even, odd = unpack(x)"),
    "a slice for alternating columns": (
        swiglu("y = acc * rstd", "return {'o': silu(y[:, 0::2]) * y[:, 1::2]}"),
        "even, odd = unpack(x)",
    ),
    "an index to broadcast": (swiglu("gate, up = unpack(acc * rstd[:, None])", GIVEN), "vectors broadcast"),
    "gate and up exchanged": (swiglu("up, gate = unpack(acc * rstd)", GIVEN), "Exchange the two names"),
    "an operand forgotten": (swiglu("gate, up = unpack(acc)", GIVEN, parameters="acc"), "Take rstd as a parameter"),
    "the matrices as parameters": (
        swiglu(SPLIT, GIVEN, parameters="acc, x, w, rstd"),
        "acc already holds the product x @ w.T",
    ),
    "a misspelled operand": (swiglu("gate, up = unpack(acc * r)", GIVEN, parameters="acc, r"), "Its operands: rstd"),
    "full width for half": (swiglu("return {'o': silu(acc * rstd)}"), "even, odd = unpack(x)"),
    "another library's name": (swiglu(SPLIT, "return {'o': swish(gate) * up}"), "Write silu(x)"),
    "an if": (bias("y = acc + bias", "if y > 0:", "    y = y * 2", "return {'y': y}"), "where(condition, a, b)"),
    "a conditional expression": (bias("y = acc + bias", "return {'y': y if y > 0 else 0.0}"), "where(condition, a, b)"),
    "Python's max": (bias("return {'y': max(acc + bias, 0)}"), "maximum(a, b)"),
    "a value returned alone": (bias("return acc + bias"), 'return {"name": value}'),
    "another key": (bias("return {'out': acc + bias}"), "Call it 'y'"),
    "a cast": (bias("return {'y': (acc + bias).to('bf16')}"), "each output is rounded to its declared dtype"),
    "a wrong sign": (bias("return {'y': acc - bias}"), "Change the sign with which bias enters"),
    "a factor too many": (bias("return {'y': (acc + bias) * 0.5}"), "Divide y by 0.5"),
    "a loop": (bias("for i in range(2):", "    acc = acc + bias", "return {'y': acc}"), "Write the terms out"),
    "a reduction computed with": (
        ("linear_lse", written("acc", "return {'logits': acc, 'lse': log(row_sum(exp(acc)))}")),
        "Return row_lse(x)",
    ),
    "a softmax": (bias("e = exp(acc + bias)", "return {'y': e / row_sum(e)}"), "belongs to a later stage"),
    "math for a constant": (
        bias("return {'y': acc * math.pi + bias}", head="import math\n" + HEAD),
        "write numbers out",
    ),
    "`and` between comparisons": (bias("return {'y': where(acc > 0 and bias > 0, acc, bias)}"), "(a > b) & (c > d)"),
    "a power": (bias("return {'y': (acc + bias) ** 1.5}"), "x ** 1.5 is x * sqrt(x)"),
    "no decorator": (bias("return {'y': acc + bias}", head=""), "Write @epilogue over def"),
    "no import": (bias("return {'y': acc + bias}", head="@epilogue\n"), "from codasmith.primitives import epilogue"),
    "two blocks": (("linear_bias", "```python\na = 1\n```\nor\n```python\nb = 1\n```"), "one ```python block"),
    "prose in the block": (("linear_bias", "```python\nHere is the epilogue:\n```"), "explanations belong outside"),
    "no block": (("linear_bias", "I would add the bias to acc."), "one ```python block"),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def first_stages(task, source):
    """The gate's first two stages, for real; a candidate that gets further is compiled, which takes minutes."""
    result, graph = read_stage(task, source, "closed")
    return [result] if graph is None else [result, interpret_stage(task, graph)]


@pytest.mark.parametrize("mistake", CLOSED)
def test_the_remedy_of_a_closed_mistake_can_be_read(told, mistake):
    (task, answer), words = CLOSED[mistake]
    text = told(task, answer, first_stages)
    assert words in text
    assert "refused at the stage" in text and "Send the whole corrected file." in text
    assert len(text) < 2_500
