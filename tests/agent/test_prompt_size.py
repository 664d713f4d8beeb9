"""What one question costs, by level and tier, in tokens.

No tokenizer comes with the package, and the usual ones are downloaded at first use.  `tokens` estimates from above
instead: a run of letters is a token for each three begun, and every digit, every other character and every line break
with its indentation is one.  Tokenizers in use keep most words whole and join operators, so that they count less: on
every first question of the catalogue the estimate was at least 1.41 times the count of Anthropic's tokenizer (the one
in its Python SDK 0.38) and 1.46 times that of OpenAI's o200k_base (2026-11-29).
"""

import re

import pytest
from codasmith.agent.conversation import conversation
from codasmith.agent.history import Attempt
from codasmith.agent.rendering import packaged
from codasmith.gate.verdict import Finding, StageResult, Verdict
from codasmith.tasks import catalogue

MOST = 12_000
PIECES = re.compile(r"[^\W\d_]+|\d|\n\s*|[^\w\s]|_| {2,}")


def tokens(text):
    return sum(-(-len(piece) // 3) if piece[0].isalpha() else 1 for piece in PIECES.findall(text))


def test_the_estimate_is_no_less_than_a_known_count():
    assert tokens("tiktoken is great!") == 7  # six in cl100k_base, by OpenAI's cookbook
    assert tokens("") == 0 and tokens("x = 12\n    y") == 6


@pytest.mark.parametrize("tier", ["closed", "cutedsl"])
@pytest.mark.parametrize("level", sorted({t.level for t in catalogue().values()}))
def test_a_first_question_stays_under_twelve_thousand_tokens(level, tier):
    sizes = {
        task.name: sum(tokens(m.content) for m in conversation(task, tier=tier))
        for task in catalogue().values()
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
    assert 6_000 < sum(tokens(m.content) for m in messages) / 1.41 < MOST
