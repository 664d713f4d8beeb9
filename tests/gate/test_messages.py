"""The compiler's real texts, and what an author is told instead."""

import time

import pytest
from codasmith.gate.messages import clean, explain

CONTROL = """DSLUserCodeError:
error[PHASE_DYNAMIC_TO_STATIC_BOOL]: Cannot use a Runtime value (Staged value) value where a Python value
  --> /cache/objects/3beb2f05c2fe520d87930edf12cb3cf2/ea3ba4b2162fad85e.py:12:14
   |
12 |     y = y if y > 0.0 else y * 0.1
   |              ^^^^^^^
  suggestion: Decorate the function with @jit and ensure preprocess is enabled so control flow is staged"""
INDEX = """DSLUserCodeError:
error[PHASE_DYNAMIC_INDEX]: Cannot use a Runtime value (Staged value) value as a list index or for loop range
  --> /cache/objects/98225ed774d1c8cd00840c75a52f957c/ebf0207d20c13b732.py:11:18"""
IN = """DSLUserCodeError:
error[UNSUP_IN_OPERATOR]: The `in` operator is not supported between these values.
   --> /home/someone/venv/lib/python3.11/site-packages/quack/epilogue/visit.py:374:31
    |
374 |                 if const_expr("D" in res):"""
RANGE = """DSLRuntimeError:
error[INTERNAL]: The compiler hit an internal DSL problem while compiling your code.
  note: This is a bug in the DSL, not a mistake in your kernel.
  error: dynamic range should be always preprocessed to IR"""
NAME = """DSLUserCodeError:
error: NameError in `__call__`: name 'silu' is not defined
  --> /cache/objects/72f52085c132b737fc2c7c8ac77cef30/e7aa96ef1b4334fab.py:11"""
CAPTURE = (
    "TypeError: epilogue fn depends on np.float32(2.0) (type numpy.float32), which has no fail-closed semantic key. "
    "Supported: primitives, containers, enums, functions, dataclasses, modules/classes."
)

# text -> (code, what the message says, what the remedy says)
TEXTS = {
    CONTROL: ("control-flow", "truth value", "cutlass.select_"),
    INDEX: ("python-number", "Python number", "cute.math"),
    "TypeError: relu(): argument 'input' (position 1) must be Tensor, not Float32": (
        "torch-function",
        "torch",
        "cute.math",
    ),
    "KeyError: 's'": ("missing-output", "no key 's'", "outs="),
    "KeyError: torch.float64": ("float64", "float64", "float32"),
    IN: ("return-value", "dict", '{"D": value'),
    "AssertionError: unpack() got a non-paired value. Declare mode='acc_pair' to pair adjacent accumulator lanes": (
        "pair-mode",
        "no pair",
        'mode="acc_pair"',
    ),
    "CompilerDiagnosticError: libNVVM extra log: F32x2 intrinsics are not supported on this architecture": (
        "pair-math",
        "Pair",
        "unpack",
    ),
    "TypeError: Expected a Vector or Numeric, but got Pair": ("pair-math", "Pair", "unpack"),
    "TypeError: unsupported operand type(s) for /: 'Pair' and 'Pair'": ("pair-math", "Pair", "unpack"),
    "TypeError: a_dtype should be float16 or float8": ("product-dtype", "16-bit", "bf16 or fp16"),
    CAPTURE: ("captured-object", "np.float32(2.0)", "plain Python numbers"),
    RANGE: ("loop", "cutlass.range", "unrolled"),
    "ValueError: CTA tile shape N must be divisible by 16 and <= 208": ("tile-shape", "divisible by 16", "schedule"),
    "ValueError: Expected size in shape to be strictly positive, but got 0": (
        "shared-memory",
        "shared memory",
        "fewer tiles",
    ),
    "ValueError: operand 'bias': rank-1 vectors are varlen colvecs (total_m,); dense calls pass (l, dim)": (
        "operand-kind",
        "bias",
        'ops={"bias": RowVecLoad("bias")}',
    ),
    "ValueError: cannot infer epilogue operand kind for 'bias' with shape (1, 2056)": (
        "operand-kind",
        "bias",
        'ops={"bias": RowVecLoad("bias")}',
    ),
    "ValueError: y must have shape (1024, 1024), got (1024, 2048)": ("wrong-shape", "needs (1024, 1024)", "acc_pair"),
    NAME: ("unknown-name", "silu", "import"),
    "AttributeError: module 'cutlass.cute.math' has no attribute 'gelu'": ("unknown-name", "no gelu", "cute.math"),
    "AttributeError: 'Float32' object has no attribute 'tanh'": ("unknown-name", ".tanh", "cute.math"),
    "ImportError: cannot import name 'Foo' from 'quack.epilogue.ops' (/a/b/ops.py)": (
        "unknown-name",
        "no Foo",
        "RowVecLoad",
    ),
    "AttributeError: 'function' object has no attribute 'operand_names'": (
        "no-epilogue",
        "gemm_epilogue",
        "@gemm_epilogue",
    ),
    "ValueError: type mismatch, store i32 to Float32": ("value-type", "i32", "0.0 instead of 0"),
    "TemplateError: The candidate's output 'aux' is none of the task's. Use y.": ("task-mismatch", "'aux'", "Use y."),
    "the compiler was ended by signal 6 (SIGABRT)": ("compiler-abort", "SIGABRT", "simply"),
    "the compiler was ended by signal 11 (SIGSEGV)": ("compiler-abort", "SIGSEGV", "simply"),
    "exit status 134": ("compiler-abort", "134", "simply"),
    "exit status 139": ("compiler-abort", "139", "simply"),
    "the compiler was ended by signal 9 (SIGKILL)": ("killed", "memory", "CODASMITH_COMPILE_JOBS"),
    "compiling was stopped: it made more than 20000 files": (
        "too-much",
        "it made more than 20000 files",
        "none of its own",
    ),
    "compiling took longer than 120 s and was stopped": ("time-limit", "120 s", "smaller"),
    "RuntimeError: the linker 'gcc' was not found; install gcc or set CC to a C compiler": (
        "environment",
        "gcc",
        "doctor",
    ),
    "ModuleNotFoundError: No module named 'quack'": ("environment", "quack", "doctor"),
    "the compiler ended with status 1 and no report": ("environment", "no report", "doctor"),
}


@pytest.mark.parametrize("text", TEXTS, ids=[f"{code}-{i}" for i, (code, _, _) in enumerate(TEXTS.values())])
def test_texts_are_translated(text):
    code, message, remedy = TEXTS[text]
    found = explain(text)
    assert found.code == code and message in found.message and remedy in found.remedy, found
    assert not set("{}") & set(found.message) or code == "return-value"


def test_an_unknown_text_keeps_its_most_telling_line():
    text = "SomethingNew: \nerror[NEW_THING]: Vectors of length 3 are odd.\n  --> /a/b/e0123456789abcdef.py:3:1\n"
    found = explain(text)
    assert found.code == "compiler-error" and "Vectors of length 3 are odd." in found.message
    assert explain("").message.endswith("it gave no message.")


def test_texts_name_no_folder_of_the_machine():
    assert "candidate.py:12:14" in clean(CONTROL) and "/cache" not in clean(CONTROL)
    assert "--> quack/epilogue/visit.py:374:31" in clean(IN) and "someone" not in clean(IN)
    assert clean("File /home/someone/work/tasks/mine.py, line 3") == "File mine.py, line 3"
    assert clean("a / b and c/d.py") == "a / b and c/d.py"
    assert clean("File /a b/x/site-packages/y/e0123456789abcdef.py:1 in z") == "File /a candidate.py:1 in z"


@pytest.mark.parametrize(
    "part",
    ["/", "/e0123456789abcdef", "a", "NameError", "/site-packages", "/a", "a.p/", ".", "'", "got Pair() ", "/\n"],
)
def test_a_text_that_its_author_made_to_be_slow_is_not(part):
    started = time.perf_counter()
    explain(part * (8000 // len(part)))
    assert time.perf_counter() - started < 0.5
