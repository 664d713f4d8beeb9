"""Each stage's findings in words of their own, and each message of the compiler translated: what a model reads."""

import pytest
from codasmith.agent.feedback import feedback
from codasmith.agent.history import Attempt
from codasmith.gate.messages import explain
from codasmith.gate.verdict import STAGES, Finding, StageResult, Verdict

SOURCE = "import cutlass\n\n\n@gemm_epilogue(outputs=('o',))\ndef epilogue(acc, bias):\n    return {'o': acc + bias}\n"


def told(stage, finding, *, tier="closed", source=SOURCE):
    before = STAGES[: STAGES.index(stage)]
    stages = [StageResult(stage=s, outcome="passed") for s in before]
    stages.append(StageResult(stage=stage, outcome="failed", finding=finding))
    verdict = Verdict(
        task="t", task_digest="d", candidate_digest="c", tier=tier, status="refused", stages=tuple(stages)
    )
    return feedback(Attempt(1, source=source, verdict=verdict))


# What only this stage says.
OWN = {
    "read": "nothing of it is run",
    "interpret": "rounding plays no part",
    "compile": "under every schedule",
    "tune": "Nothing is known yet of its values",
    "numerics": "twice the error that the unfused path in the storage dtype has itself",
    "guards": "what the kernel does beside computing",
    "timing": "nothing may be kept from one call to the next",
    "sanitizer": "where the last tile reaches beyond the tensors",
}


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_has_words_of_its_own(stage):
    text = told(
        stage, Finding(code="x", message="It is wrong.", remedy="Mend it.", line=6, details={"seen": "a thing"})
    )
    assert f'refused at the stage "{stage}"' in text and "It is wrong." in text
    assert "Line 6 of your file:\n\n````text\nreturn {'o': acc + bias}\n````" in text
    assert "What to do:\n\n````text\nMend it.\n````" in text and "seen: a thing" in text
    assert [s for s, words in OWN.items() if words in text] == [stage]
    assert "\n\n\n" not in text and text.endswith("Send the whole corrected file.\n")


WRONG = {
    "output": "o",
    "elements": 4096,
    "wrong": 1024,
    "share": 0.25,
    "worst": {"index": [3, 7], "value": 1.5, "expected": -0.25},
    "max_error": 1.75,
    "pattern": "odd columns are zero",
    "workload": {"sizes": {"M": 64, "N": 64, "K": 64}, "storage": "bf16", "family": "large"},
    "schedule": "128x128-pingpong-2x1",
}
ERRORS = {
    "kernel_max": 1.75,
    "bound_max": 0.03125,
    "unfused_max": 0.0156,
    "kernel_rms": 0.5,
    "bound_rms": 0.01,
    "unfused_rms": 0.005,
    "misplaced": 3,
    "unequal": None,
}


def test_a_wrong_output_is_told_with_pattern_worst_element_and_errors():
    finding = Finding(code="wrong-values", message="The output o is wrong.", output="o", details=WRONG | ERRORS)
    text = told("numerics", finding)
    for line in (
        "- pattern: odd columns are zero",
        "- wrong are 1,024 of 4,096 elements (25 %)",
        "- the worst is [3, 7]: 1.5, where -0.25 is right",
        "- largest error 1.75, allowed 0.03125; the unfused path's own 0.0156",
        "- root mean square of the error 0.5, allowed 0.01; the unfused path's own 0.005",
        "- 3 elements are NaN or infinite where the reference is not, or the reverse",
        "- seen on M64 N64 K64 bf16, inputs of the family large, schedule 128x128-pingpong-2x1",
    ):
        assert line in text
    assert "look for an exp, a square or a product that overflows" in text and "More:" not in text


def test_a_pattern_that_the_message_names_is_not_said_twice():
    finding = Finding(code="wrong-values", message="The output o differs: odd columns are zero.", details=WRONG)
    assert told("interpret", finding).count("odd columns are zero") == 1


@pytest.mark.parametrize(
    "family, words",
    [
        ("tiny", "swallows them"),
        ("outliers", "mixes rows"),
        ("sparse", "log(0)"),
        ("integers", "exact result"),
        ("normal", ""),
    ],
)
def test_the_family_of_inputs_says_what_to_look_for(family, words):
    workload = {"sizes": {"M": 8}, "family": family}
    text = told("numerics", Finding(code="wrong-values", message="Wrong.", details={**ERRORS, "workload": workload}))
    assert words in text and text.count("inputs of this family") + text.count("rows of this family") <= 1
    assert ("of this family" in text) == bool(words)


@pytest.mark.parametrize(
    "stage, code, words",
    [
        ("guards", "guard-run-to-run", "what the kernel does beside computing"),
        ("tune", "runner-hung", "Nothing is known yet of its values"),
        ("compile", "shared-memory", "two to four of its three to five stages"),
        ("compile", "time-limit", "n times the code"),
    ],
)
def test_a_finding_without_a_remedy_of_its_own_still_says_what_to_look_for(stage, code, words):
    assert words in told(stage, Finding(code=code, message="It is so."))


def test_a_gate_that_could_not_finish_blames_nobody():
    verdict = Verdict(task="t", task_digest="d", candidate_digest="c", status="failed", note="the driver went away")
    text = feedback(Attempt(1, source=SOURCE, verdict=verdict))
    assert "says nothing of your file" in text and "the driver went away" in text and "refused" not in text


# The compiler's own words -> what the remedy says.
MESSAGES = {
    "if on a value": ("error[PHASE_DYNAMIC_TO_STATIC_BOOL]: Cannot use a Runtime value", "cutlass.select_(condition"),
    "a vector of rank 1": (
        "ValueError: operand 'bias': rank-1 vectors are varlen colvecs (total_m,); dense calls pass (l, dim)",
        'ops={"bias": RowVecLoad("bias")}',
    ),
    "a shape that tells no kind": (
        "ValueError: cannot infer epilogue operand kind for 'bias' with shape (1, 2056)",
        "RowVecLoad",
    ),
    "an output of another shape": ("ValueError: y must have shape (1024, 1024), got (1024, 2048)", 'mode="acc_pair"'),
    "a function of torch": (
        "TypeError: relu(): argument 'input' (position 1) must be Tensor, not Float32",
        "quack.activation (silu",
    ),
    "a sink without a value": ("KeyError: 's'", "every name in outputs= and outs="),
    "no dict": ("error[UNSUP_IN_OPERATOR]: The `in` operator is not supported", 'Return {"D": value'),
    "unpack without its mode": (
        "AssertionError: unpack() got a non-paired value. Declare mode='acc_pair' to pair",
        'mode="acc_pair"',
    ),
    "an activation on a pair": (
        "CompilerDiagnosticError: libNVVM: F32x2 intrinsics are not supported on this architecture",
        "a, b = unpack(x)",
    ),
    "float32 matrices": ("TypeError: a_dtype should be float16 or float8", "bf16 or fp16"),
    "an object from outside": (
        "TypeError: epilogue depends on scale (type numpy.float32), which has no fail-closed semantic key",
        "float(...) or a literal",
    ),
    "cutlass.range": ("error[INTERNAL]: dynamic range should be always preprocessed", "for i in range(n)"),
    "a float64 operand": ("KeyError: torch.float64", "float32, bf16 or fp16"),
    "a tile that is not": ("ValueError: CTA tile shape N must be divisible by 16 and <= 208", "use another"),
    "no shared memory": ("Expected size in shape to be strictly positive, but got 0", "Read fewer tiles"),
    "a bug of the compiler": ("error[INTERNAL]: This is a bug in the DSL", "plain arithmetic on Float32"),
    "an abort of the compiler": ("the compiling process ended by signal 6 (SIGABRT)", "more simply"),
}


@pytest.mark.parametrize("mistake", MESSAGES)
def test_each_message_of_the_compiler_becomes_what_to_write_instead(mistake):
    text, words = MESSAGES[mistake]
    seen = explain(text)
    finding = Finding(
        code=seen.code, message=seen.message, remedy=seen.remedy, line=6, details={"compiler": "\n".join([text] * 300)}
    )
    said = told("compile", finding, tier="cutedsl")
    remedy = said.split("What to do:")[1].split("More:")[0]
    assert words in remedy, remedy
    assert "return {'o': acc + bias}" in said and f"compiler: {text[:60]}" in said and "characters left out" in said
    assert len(said) < 5_000
