"""The compiler's messages in the words of an epilogue's author: what went wrong, and what to write instead.

The texts on the left are those of CuTeDSL 4.8.1, quack 0.6.5 and the compile server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CONTROL = (
    "Write cutlass.select_(condition, a, b) with both sides Float32, cute.arch.fmax / fmin for max / min, and "
    "cutlass.and_ / or_ for and / or; or move the lines into a helper decorated with @cute.jit."
)
_ACTIVATIONS = "quack.activation (silu, sigmoid, relu, gelu_erf, gelu_tanh_approx, softplus)"
_MATH = (
    "Use cute.math (exp, exp2, log, tanh, erf, rsqrt, sqrt, sin, cos; with fastmath=True where it takes it), "
    f"cute.arch.fmax / fmin, cutlass.select_(condition, a, b) and {_ACTIVATIONS}."
)
_PAIR = "Take it apart first, a, b = unpack(x), compute on a and b, and return pack(a, b)."
_TILES = "Read fewer tiles (or 16-bit ones), store fewer extra outputs, or leave the large tile shapes out."

# (pattern, code, message, remedy); {1} is the pattern's first group.  The first that matches counts.
_TABLE: tuple[tuple[str, str, str, str], ...] = (
    # The candidate does not fit its task.
    (r"TemplateError: (.+?\.) (.+)", "task-mismatch", "{1}", "{2}"),
    (
        r"module defines no `epilogue`|'function' object has no attribute 'operand_names'",
        "no-epilogue",
        "`epilogue` is not made by gemm_epilogue.",
        "Decorate the function of that name: @gemm_epilogue(...) over def epilogue(acc, ...).",
    ),
    # Python on traced values.
    (
        r"PHASE_DYNAMIC_TO_STATIC_BOOL",
        "control-flow",
        "A value of the kernel is used as a Python truth value (if, a if c else b, max, min, and, or, not).",
        _CONTROL,
    ),
    (
        r"PHASE_DYNAMIC_INDEX",
        "python-number",
        "A value of the kernel is used as a Python number (math.*, float(), int(), an index or a range).",
        _MATH,
    ),
    (
        r"must be Tensor, not (Float32|Pair|F2)",
        "torch-function",
        "A function of torch is called on a value of the kernel, which is one traced {1}.",
        _MATH,
    ),
    (
        r"'Float32' object has no attribute '(\w+)'",
        "unknown-name",
        "A value of the kernel has no method .{1}; it is one traced Float32, not a tensor.",
        _MATH,
    ),
    (r"module '([\w.]+)' has no attribute '(\w+)'", "unknown-name", "{1} has no {2}.", _MATH),
    (
        r"cannot import name '(\w+)' from 'quack\.epilogue\.ops'",
        "unknown-name",
        "quack.epilogue.ops has no {1}.",
        "Loads are RowVecLoad, ColVecLoad, TileLoad and Scalar; sinks are ColVecReduce, RowVecReduce, ColVecSelect and "
        "OnlineLSEReduce.",
    ),
    (
        r"cannot import name '(\w+)' from '([\w.]+)'",
        "unknown-name",
        "{2} has no {1}.",
        "Import what exists there; write small functions yourself.",
    ),
    (
        r"NameError.{0,200}?name '(\w+)' is not defined",
        "unknown-name",
        "The name {1} is not defined.",
        f"Define it before use, or import it; {_ACTIVATIONS} has the usual functions.",
    ),
    (r"No module named '(?!quack|cutlass|torch|tvm_ffi|triton)([\w.]+)'", "import", "There is no module {1}.", _MATH),
    (
        r"dynamic range should be always preprocessed",
        "loop",
        "cutlass.range stands inside the epilogue's function, which is not preprocessed for it.",
        "Write for i in range(n) with a Python number: it is unrolled.",
    ),
    # What the function returns.
    (
        r"UNSUP_IN_OPERATOR|argument of type '\w+' is not iterable",
        "return-value",
        "The function does not return a dict.",
        'Return {"D": value, "name": value}: one key for MAIN ("D"), one for each of outputs= and outs=.',
    ),
    (
        r"KeyError: torch\.float64",
        "float64",
        "An operand is float64, which the kernel cannot load.",
        "Use float32, bf16 or fp16.",
    ),
    (
        r"KeyError: '(\w+)'",
        "missing-output",
        "The returned dict has no key '{1}', which the epilogue declares.",
        'Return a value for "D" and for every name in outputs= and outs=.',
    ),
    # Pairs.
    (
        r"unpack\(\) got a non-paired value",
        "pair-mode",
        "unpack is applied to a value that holds no pair of columns.",
        'Declare mode="acc_pair" to pair columns of acc, or mode="packed_cd_b16x2" to unpack a 2N-wide tile c; '
        "column vectors and scalars are single values in every mode.",
    ),
    (
        r"F32x2 intrinsics are not supported|got Pair\b|operand type\(s\) for [^:]+: '?Pair|'Pair' object has no",
        "pair-math",
        "Mathematics is applied to a Pair, which has only +, - and *.",
        _PAIR,
    ),
    # Values and types that the tracer or the kernel cannot take.
    (
        r"depends on (.{1,60}?) \(type ([\w.]+)\), which has no fail-closed semantic key",
        "captured-object",
        "The function uses {1}, an object of type {2} from outside, which cannot be part of a kernel.",
        "Use plain Python numbers: float(...) or a literal.",
    ),
    (
        r"no fail-closed semantic key",
        "captured-object",
        "The function uses an object from outside that cannot be part of a kernel.",
        "Use plain Python numbers: float(...) or a literal.",
    ),
    (
        r"a_dtype should be float16 or float8|dtype should be float16",
        "product-dtype",
        "The operands of the product are not 16-bit.",
        "Use bf16 or fp16 for both; the accumulator is float32 anyway.",
    ),
    (
        r"type mismatch, store (\w+) to (\w+)",
        "value-type",
        "A value of type {1} stands where {2} is stored.",
        "Make it Float32: write 0.0 instead of 0, or Float32(x); both sides of cutlass.select_ must be Float32.",
    ),
    (
        r"op for '(\w+)' must be an EpiOp named",
        "operand-kind",
        "The operand {1} is pinned under another name.",
        'The name inside is the key: ops={"{1}": RowVecLoad("{1}")}, and likewise in outs=.',
    ),
    (
        r"\b(\w+)\(\) got an unexpected keyword argument '(\w+)'",
        "unknown-argument",
        "{1} takes no argument {2}.",
        "Leave it out. gemm_epilogue takes outputs=, outs=, ops= and mode=; operands are the function's parameters, "
        "each pinned in ops=.",
    ),
    (
        r"operand '(\w+)': rank-1 vectors are varlen",
        "operand-kind",
        "The vector {1} is taken for something else.",
        'Pin its kind: ops={"{1}": RowVecLoad("{1}")} for one value a column, ColVecLoad for one a row.',
    ),
    (
        r"cannot infer epilogue operand kind for '(\w+)'",
        "operand-kind",
        "The kind of the operand {1} cannot be told from its shape.",
        'Pin it: ops={"{1}": RowVecLoad("{1}")} for one value a column, ColVecLoad for one a row, TileLoad for tiles.',
    ),
    (
        r"ValueError: (\w+) must have shape (\([\d, ]*\)), got (\([\d, ]*\))",
        "wrong-shape",
        "{1} is made for the shape {3}, and the kernel needs {2}.",
        'An N/2-wide output is named in outputs=, under mode="acc_pair", and returned under its own name; "D" is as '
        "wide as acc, and 2N wide under packed_cd_b16x2.",
    ),
    # Resources.
    (
        r"Expected size in shape to be strictly positive",
        "shared-memory",
        "The epilogue's tiles and buffers leave no shared memory for the pipeline of the product.",
        _TILES,
    ),
    (
        r"CTA tile shape (.+)",
        "tile-shape",
        "The tile shape is not one that the GEMM has: {1}.",
        "This schedule cannot run; use another.",
    ),
    (
        r"took longer than (\d+) s and was stopped",
        "time-limit",
        "Compiling took longer than {1} s and was stopped.",
        "Make the epilogue smaller: no long unrolled loops, fewer operations an element.",
    ),
    (
        r"compiling was stopped: (it .+)",
        "too-much",
        "Compiling was stopped, for {1}.",
        "Leave the compiler's files and threads to the compiler; the module needs none of its own.",
    ),
    # The compiler or this machine.
    (
        r"(No space left on device|Disk quota exceeded|Read-only file system|File too large"
        r"|the object could not be kept.*)",
        "environment",
        "This machine cannot compile: {1}.",
        "Free some space, or set CODASMITH_CACHE to a folder that has it.",
    ),
    (
        r"signal (?:6|11|4|8|7) \((\w+)\)|status (?:134|139)\b",
        "compiler-abort",
        "The compiler itself crashed on this kernel ({1}).",
        "Write the expression more simply; resources of your own (EpiOp) are the usual cause.",
    ),
    (
        r"signal (?:9|15) \((\w+)\)",
        "killed",
        "The compiling process was killed ({1}), most often because memory ran out.",
        "Make the epilogue smaller, or compile fewer schedules at once (CODASMITH_COMPILE_JOBS=1).",
    ),
    (
        r"(the linker .+? was not found.*|linking failed.*|libcute_dsl_runtime\.so was not found.*"
        r"|No module named '(?:quack|cutlass|torch|tvm_ffi|triton)[\w.]*'.*|ended with status \d+ and no report)",
        "environment",
        "This machine cannot compile: {1}",
        "Correct the installation; codasmith doctor says what is missing.",
    ),
    (
        r"error\[INTERNAL\]",
        "compiler-error",
        "The compiler met an internal problem with this code.",
        "Write the line more simply: plain arithmetic on Float32, no Python machinery.",
    ),
)


@dataclass(frozen=True)
class Explanation:
    """A compiler's message in the author's words."""

    code: str
    message: str
    remedy: str = ""


def explain(error: str) -> Explanation:
    """What a failed compilation's text means; unknown texts keep their most telling line."""
    for pattern, code, message, remedy in _TABLE:
        match = re.search(pattern, error, re.DOTALL if code == "task-mismatch" else 0)
        if match:
            return Explanation(code, _filled(message, match), _filled(remedy, match))
    return Explanation(
        "compiler-error",
        f"The compiler refuses it: {_telling_line(error)}",
        "Correct the line; see the compiler's text.",
    )


def _filled(text: str, match: re.Match[str]) -> str:
    return re.sub(r"\{(\d)\}", lambda place: match[int(place[1])] or "exit status 134 or 139", text)


def clean(error: str) -> str:
    """The text without this machine's folders: the candidate's file is called candidate.py."""
    return re.sub(r"\S+", _without_folders, error).strip()


_SOURCE = re.compile(r"/e[0-9a-f]{16,17}\.py")
_PACKAGES = re.compile(r"/(?:site|dist)-packages/")


def _without_folders(word: re.Match[str]) -> str:
    """A word at a time, and its parts found once each: a hostile text must not take minutes."""
    text = word[0]
    for ends, instead in ((_SOURCE, "candidate.py"), (_PACKAGES, "")):
        if found := [*ends.finditer(text)]:
            first = text.index("/") if ends is _PACKAGES else 0
            text = text[:first] + instead + text[found[-1].end() :]
    text = re.sub(r"\be[0-9a-f]{16}\.py", "candidate.py", text)
    return re.sub(r"(?<![\w.])/(?:[\w.\-]+/)+(?=[\w.\-]+\.py\b)", "", text)


def _telling_line(error: str) -> str:
    lines = [line.strip() for line in clean(error).splitlines() if line.strip()]
    for line in lines:
        if re.match(r"error(\[\w+\])?:", line):
            return re.sub(r"^error(\[\w+\])?:\s*", "", line)[:300]
    return lines[0][:300] if lines else "it gave no message."
