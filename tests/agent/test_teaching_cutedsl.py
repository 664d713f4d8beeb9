"""The mistakes that weak authors of CuTeDSL modules make most: what each is told says what to write.

The compiler's texts are its own, recorded; a slow test makes them again.
"""

import pytest
from codasmith.gate.frame import frame_of
from codasmith.gate.messages import explain
from codasmith.gate.read import read_stage
from codasmith.gate.verdict import Finding, StageResult
from codasmith.tasks import load_task
from codasmith.templates.compile import Compiler
from codasmith.templates.frame import blank_signature
from codasmith.templates.schedule import SCHEDULES

HEAD = (
    "import cutlass\nimport cutlass.cute as cute\nfrom quack.epilogue import gemm_epilogue\n"
    "from quack.epilogue.frontend import pack, unpack\nfrom quack.epilogue.ops import ColVecLoad, RowVecLoad\n\n"
)
BIAS = '@gemm_epilogue(ops={"bias": RowVecLoad("bias")})\n'
PAIR = '@gemm_epilogue(outputs=("o",), ops={"rstd": ColVecLoad("rstd")}, mode="acc_pair")\n'


def row(*lines, before="", main='MAIN = "y"\n\n\n', decorator=BIAS, parameters="acc, bias"):
    body = "".join(f"    {line}\n" for line in lines)
    return "linear_bias", f"{before}{HEAD}{main}{decorator}def epilogue({parameters}):\n{body}"


def pair(*lines, main="\n\n", decorator=PAIR):
    body = "".join(f"    {line}\n" for line in lines)
    return "rmsnorm_swiglu", f"{HEAD}{main}{decorator}def epilogue(acc, rstd):\n{body}"


SUM = 'return {"D": acc + bias}'
TRUTH = (
    "DSLUserCodeError: \nerror[PHASE_DYNAMIC_TO_STATIC_BOOL]: Cannot use a Runtime value (Staged value) value where a "
    "Python value (Meta value) boolean is required (e.g. in plain Python control flow)\n  --> candidate.py:13:8"
)
NUMBER = (
    "DSLUserCodeError: \nerror[PHASE_DYNAMIC_INDEX]: Cannot use a Runtime value (Staged value) value as a list index "
    "or for loop range in plain Python code\n  --> candidate.py:13:18"
)
IN = (
    "DSLUserCodeError: \nerror[UNSUP_IN_OPERATOR]: The `in` operator is not supported between these values.\n"
    "   --> quack/epilogue/visit.py:374:31"
)
UNPACK = (
    "AssertionError: unpack() got a non-paired value. Declare mode='acc_pair' to pair adjacent accumulator lanes or "
    "mode='packed_cd_b16x2' to unpack 16-bit C/D lanes."
)

# mistake -> ((task, module), the compiler's text or "" where the reader refuses it, what the remedy says)
MISTAKES = {
    "imports torch": (row('return {"D": torch.relu(acc + bias)}', before="import torch\n"), "", "quack.activation"),
    "imports numpy": (row('return {"D": np.tanh(acc)}', before="import numpy as np\n"), "", "cute.math"),
    "no epilogue": (
        (row(SUM)[0], row(SUM)[1].replace("def epilogue", "def kernel")),
        "",
        "@gemm_epilogue(...) over def epilogue(acc, ...)",
    ),
    "no decorator": (
        row(SUM, decorator=""),
        "AttributeError: 'function' object has no attribute 'operand_names'",
        "@gemm_epilogue(...) over def epilogue(acc, ...)",
    ),
    "an if": (
        row("y = acc + bias", "if y > 0.0:", "    y = y * 2.0", 'return {"D": y}'),
        TRUTH,
        "cutlass.select_(condition, a, b)",
    ),
    "Python's max": (row('return {"D": max(acc + bias, 0.0)}'), TRUTH, "cute.arch.fmax"),
    "Python's math": (row('return {"D": math.exp(acc + bias)}', before="import math\n"), NUMBER, "Use cute.math (exp"),
    "a method": (
        row('return {"D": (acc + bias).tanh()}'),
        "AttributeError: 'Float32' object has no attribute 'tanh'",
        "Use cute.math",
    ),
    "a function that is not there": (
        row('return {"D": cute.math.sigmoid(acc + bias)}'),
        "AttributeError: module 'cutlass.cute.math' has no attribute 'sigmoid'",
        "quack.activation (silu, sigmoid",
    ),
    "torch's where": (
        row('return {"D": cutlass.where(acc > 0.0, acc, bias)}'),
        "AttributeError: module 'cutlass' has no attribute 'where'",
        "cutlass.select_(condition, a, b)",
    ),
    "a name that is not defined": (
        row('return {"D": silu(acc + bias)}'),
        "DSLUserCodeError: \nerror: NameError in `__call__`: name 'silu' is not defined\n  --> candidate.py:12",
        "quack.activation (silu, sigmoid",
    ),
    "an import that is not there": (
        row(SUM, before="from quack.epilogue.ops import RowLoad\n"),
        "ImportError: cannot import name 'RowLoad' from 'quack.epilogue.ops' (quack/epilogue/ops.py)",
        "Loads are RowVecLoad, ColVecLoad",
    ),
    "a value returned alone": (row("return acc + bias"), IN, 'Return {"D": value'),
    "no MAIN": (
        row(SUM, main="\n\n"),
        'TemplateError: The candidate does not write the output y. Add it to outputs=, to outs=, or as MAIN = "name" '
        'with the key "D".',
        'MAIN = "name"',
    ),
    "another MAIN": (
        row(SUM, main='MAIN = "o"\n\n\n'),
        "TemplateError: The candidate's MAIN 'o' is none of the task's. Use y.",
        "Use y.",
    ),
    "a parameter that is no operand": (
        row('return {"D": acc + b}', parameters="acc, b"),
        "TemplateError: The candidate's operand 'b' is none of the task's. Use bias.",
        "Use bias.",
    ),
    "a kind under another name": (
        row(SUM, decorator='@gemm_epilogue(ops={"bias": RowVecLoad("b")})\n'),
        "ValueError: op for 'bias' must be an EpiOp named 'bias'",
        'ops={"bias": RowVecLoad("bias")}',
    ),
    "an argument that is not there": (
        row(SUM, decorator='@gemm_epilogue(inputs=("bias",))\n'),
        "TypeError: gemm_epilogue() got an unexpected keyword argument 'inputs'",
        "outputs=, outs=, ops= and mode=",
    ),
    "an integer among Float32": (
        row("y = acc + bias", 'return {"D": cutlass.select_(y > 0.0, y, 0)}'),
        "ValueError: type mismatch, store i32 to Float32",
        "write 0.0 instead of 0",
    ),
    "pairs without their mode": (
        pair(
            "g, u = unpack(acc * rstd)",
            'return {"o": g * u}',
            decorator='@gemm_epilogue(outputs=("o",), ops={"rstd": ColVecLoad("rstd")})\n',
        ),
        "ValueError: o must have shape (512, 1024), got (512, 512)",
        'mode="acc_pair"',
    ),
    "half-wide as D": (
        pair(
            "g, u = unpack(acc * rstd)",
            'return {"D": g * u}',
            decorator='@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")}, mode="acc_pair")\n',
            main='MAIN = "o"\n\n\n',
        ),
        "ValueError: D must have shape (512, 1024), got (512, 512)",
        "named in outputs=",
    ),
    "a division of pairs": (
        pair("g, u = unpack(acc / rstd)", 'return {"o": g * u}'),
        "TypeError: unsupported operand type(s) for /: 'Pair' and 'Float32'",
        "a, b = unpack(x)",
    ),
    "mathematics on a pair": (
        pair("g, u = unpack(cute.math.exp(acc * rstd))", 'return {"o": g * u}'),
        "TypeError: Expected a Vector or Numeric, but got Pair",
        "a, b = unpack(x)",
    ),
    "a column vector unpacked": (
        pair("g, u = unpack(acc)", "a, b = unpack(rstd)", 'return {"o": g * a * u * b}'),
        UNPACK,
        "column vectors and scalars are single values",
    ),
    "an output forgotten": (pair("g, u = unpack(acc * rstd)", "return {}"), "KeyError: 'o'", "every name in outputs="),
}


def recorded_compiler(text):
    """Reads for real; then the compiler says this."""

    def stages(task, source):
        result, _ = read_stage(task, source, "cutedsl")
        if result.outcome == "failed":
            return [result]
        assert text, "the reader was to refuse it"
        seen = explain(text)
        finding = Finding(code=seen.code, message=seen.message, remedy=seen.remedy, details={"compiler": text})
        return [result, StageResult(stage="compile", outcome="failed", finding=finding)]

    return stages


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_remedy_of_a_cutedsl_mistake_can_be_read(told, mistake):
    (task, module), compiler, words = MISTAKES[mistake]
    text = told(task, module, recorded_compiler(compiler), tier="cutedsl")
    remedy = text.split("What to do:")[1].split("More:")[0]
    assert words in remedy and "Send the whole corrected file." in text
    assert len(text) < 2_500


@pytest.mark.slow
def test_the_compiler_still_says_what_is_recorded(tmp_path):
    with Compiler(tmp_path, tier="cutedsl") as compiler:
        jobs = {}
        for mistake, ((name, module), text, _) in MISTAKES.items():
            if text:
                signature = blank_signature(frame_of(load_task(name), "bf16"), SCHEDULES[0])
                jobs[mistake] = compiler.submit(module, signature, tier="cutedsl")
        for mistake, job in jobs.items():
            result, recorded = job.result(), explain(MISTAKES[mistake][1])
            assert not result.ok, mistake
            now = explain(result.error)
            assert (now.code, now.remedy) == (recorded.code, recorded.remedy), mistake
