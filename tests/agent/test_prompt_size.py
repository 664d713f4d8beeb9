"""What one question costs, by level and tier, in tokens.

No tokenizer comes with the package, and the usual ones are downloaded at first use.  `tokens` estimates from above
instead: a run of letters is a token for each three begun, and every digit, every other character and every line break
with its indentation is one.  Tokenizers in use keep most words whole and join operators, so that they count less: on
every first question the estimate was at least 1.39 times the count of Anthropic's tokenizer (the one in its Python SDK
0.38) and 1.46 times that of OpenAI's o200k_base (2026-11-30, `python benchmarks/prompt_size.py`).
"""

import re

import pytest
from codasmith.agent import loop
from codasmith.agent.budget import Budget
from codasmith.agent.conversation import conversation
from codasmith.agent.counters import METRICS
from codasmith.agent.history import Attempt
from codasmith.agent.journal import Journal
from codasmith.agent.rendering import packaged
from codasmith.gate.verdict import Finding, StageResult, Verdict
from codasmith.tasks import catalogue, load_task, program_tasks
from codasmith.templates.schedule import SCHEDULES

MOST = 12_000
OVER = 1.39
"""The estimate over any known count, at the least."""
PIECES = re.compile(r"[^\W\d_]+|\d|\n\s*|[^\w\s]|_| {2,}")
TASKS = [*catalogue().values(), *map(load_task, program_tasks())]
LEVELS = [
    (level, tier)
    for level in sorted({t.level for t in TASKS})
    for tier in ("closed", "cutedsl")
    if (level, tier) != (4, "cutedsl")
]
"""Programs, the tasks of level 4, are taken in the closed tier only."""


def tokens(text):
    return sum(-(-len(piece) // 3) if piece[0].isalpha() else 1 for piece in PIECES.findall(text))


def test_the_estimate_is_no_less_than_a_known_count():
    assert tokens("tiktoken is great!") == 7  # six in cl100k_base, by OpenAI's cookbook
    assert tokens("") == 0 and tokens("x = 12\n    y") == 6


@pytest.mark.parametrize("level, tier", LEVELS)
def test_a_first_question_stays_under_twelve_thousand_tokens(level, tier):
    sizes = {
        task.name: sum(tokens(m.content) for m in conversation(task, tier=tier))
        for task in TASKS
        if task.level == level
    }
    largest = max(sizes, key=sizes.__getitem__)
    assert 1_000 < sizes[largest] < MOST, largest


@pytest.mark.parametrize("tier", ["closed", "cutedsl"])
def test_the_longest_question_with_attempts_stays_under_twelve_thousand_tokens(tier):
    """Two attempts that are cut to the budget, after the longest first question of the catalogue.

    The estimate is held against the least share of it that the known tokenizers count (see above).
    """
    longest = max(catalogue().values(), key=lambda t: sum(len(m.content) for m in conversation(t, tier=tier)))
    example = packaged(f"prompts/examples/tanh_value_bwd/{tier}.py")
    finding = Finding(code="x", message="a compiler's word " * 2_000, remedy="do this " * 2_000, line=3)
    failed = StageResult(stage="compile", outcome="failed", finding=finding)
    refused = Verdict(task="t", task_digest="d", candidate_digest="c", tier=tier, status="refused", stages=(failed,))
    shown = [Attempt(n, source=example * 40, verdict=refused) for n in (1, 2)]
    messages = conversation(longest, shown, tier=tier)
    assert len(messages) == 6
    assert 6_000 < sum(tokens(m.content) for m in messages) / OVER < MOST


def slow(task, tier):
    """A verdict of a kernel that passed, with all that can be measured of one."""
    names = [schedule.name for schedule in SCHEDULES]
    seen = {"ok": True, "spill_bytes": 96, "stages": 2}
    compiled = {name: seen | {"kept": i < 4, "why": "spills 1100 bytes a thread"} for i, name in enumerate(names)}
    workloads = [w.model_dump(mode="json") for w in task.workloads()]
    times = {w.label: dict.fromkeys(names, 1.2345) for w in task.workloads()}
    rows = [
        {
            "workload": workload,
            "schedule": names[0],
            "milliseconds": {"kernel": 1.5, "cublas": 1.2},
            "bare": "cublas",
            "tax": {"value": 1.25, "low": 1.24, "high": 1.26},
            "over_compile": {"value": 1.01, "low": 1.0, "high": 1.02},
            "sol": 0.654,
        }
        for workload in workloads
    ]
    found = {"schedule": names[0], "sizes": workloads[0]["sizes"], "values": dict.fromkeys(METRICS, 12345678.9)}
    stages = (
        StageResult(stage="read", outcome="passed"),
        StageResult(stage="compile", outcome="passed", note="4 of 7 schedules", data={"schedules": compiled}),
        StageResult(stage="tune", outcome="passed", note=names[0], data={"milliseconds": times}),
        StageResult(stage="timing", outcome="passed", data={"counters": found}),
    )
    passed = {"status": "passed", "stages": stages, "timing": {"tax": 1.25, "workloads": rows}}
    return Verdict(task=task.name, task_digest=task.digest, candidate_digest="c", tier=tier, **passed)


def weak(task, tier, number):
    """A verdict of the longest kind that real mistakes get: a compiler's text, or every number of wrong values."""
    text = "DSLUserCodeError: error[INTERNAL]: the lowering of `arith.select` failed\n  --> candidate.py:13:8\n" * 40
    workload = task.workloads()[0].model_dump(mode="json")
    errors = {f"{who}_{how}": 0.123 for who in ("kernel", "bound", "unfused") for how in ("max", "rms")}
    details = {"compiler": text} if number % 2 else {"worst": {}, "pattern": "x " * 60, "workload": workload, **errors}
    finding = Finding(code="x", message="It is wrong. " * 20, remedy="Write it so. " * 20, line=7, details=details)
    failed = StageResult(stage="compile" if number % 2 else "numerics", outcome="failed", finding=finding)
    return Verdict(
        task=task.name, task_digest=task.digest, candidate_digest="c", tier=tier, status="refused", stages=(failed,)
    )


def largest_request(task, tier, scripted, path):
    """Of a campaign: an author who is right once, then wrong in each way, with answers as long as the longest example
    and half as long again."""
    example = packaged(f"prompts/examples/tanh_value_bwd/{tier}.py")
    thoughts = "".join(f"# {line}\n" for line in example[: len(example) // 2].splitlines())
    answers = [f"```python\n{example}\n{thoughts}TRY = {n}\n```" for n in range(6)]
    verdicts = [slow(task, tier), *(weak(task, tier, n) for n in range(1, 6))]
    gate = lambda task, source, **_: type("Evaluation", (), {"verdict": verdicts.pop(0)})()  # noqa: E731
    model = scripted(*answers)
    with Journal(path) as journal:
        loop.run(task, model, budget=Budget(6), gate=gate, journal=journal, tier=tier, target_tax=1.0)
    assert len(model.asked) == 6 and len(model.asked[-1]) == 6, "the best and the newest are told"
    return max(model.asked, key=lambda messages: sum(tokens(m.content) for m in messages))


@pytest.mark.parametrize("level, tier", LEVELS)
def test_the_largest_request_of_a_weak_authors_campaign_stays_under_twelve_thousand_tokens(
    level, tier, scripted, tmp_path
):
    tasks = [t for t in TASKS if t.level == level]
    longest = max(tasks, key=lambda t: sum(len(m.content) for m in conversation(t, tier=tier)))
    request = largest_request(longest, tier, scripted, tmp_path / "run.jsonl")
    said = "".join(m.content for m in request)
    assert "counters, " in said and "schedules that were dropped" in said, "the best is told in full"
    assert sum(tokens(m.content) for m in request) / OVER < MOST
