import pytest
from codasmith.agent.extract import LARGEST, extract


def test_the_one_python_block_is_taken_as_it_stands():
    assert extract("Think.\n\n```python\nx = 1\ny = x\n```\nDone.") == "x = 1\ny = x\n"


@pytest.mark.parametrize(
    "answer",
    [
        "```\nx = 1\n```",  # no label
        "~~~python\nx = 1\n~~~",
        "````python\nx = 1\n````",
        "```python\r\nx = 1\r\n```\r\n",
        "1. So:\n   ```python\n   x = 1\n   ```",
        "```json\n{}\n```\n\n```python\nx = 1\n```\n\n```text\noutput\n```",
        "```\nsketch\n```\n\n```py\nx = 1\n```",
        "<think>\n```python\nx = 2\n```\n</think>\n```python\nx = 1\n```",
    ],
)
def test_the_block_is_found_however_it_is_fenced(answer):
    assert extract(answer) == "x = 1\n"


def test_a_longer_fence_may_hold_a_shorter_one():
    assert extract('````python\nx = """\n```\n"""\n````') == 'x = """\n```\n"""\n'


@pytest.mark.parametrize(
    ("answer", "stop", "finding"),
    [
        ("", "end", "empty-answer"),
        (" \n\t", "length", "empty-answer"),
        ("<think>hm</think>", "end", "empty-answer"),
        ("I cannot do that.", "end", "no-code"),
        ("```json\n{}\n```", "end", "no-code"),
        ("```python\n# nothing\n```", "end", "no-code"),
        ("```python\nx = 1\n```\nor\n```python\nx = 2\n```", "end", "several-blocks"),
        ("```python\nThe function is:\nx = 1\n```", "end", "syntax-error"),
        ("```python\nx = 1\n", "end", "truncated-answer"),
        ("```python\nx = 1\n", "length", "truncated-answer"),
        ("I was thinking about", "length", "truncated-answer"),
        ("```python\nx = 1\0\n```", "end", "syntax-error"),
        ("```python\nx = " + "(" * 5_000 + ")" * 5_000 + "\n```", "end", "syntax-error"),
        ("```python\nx = " + "-" * 50_000 + "1\n```", "end", "unreadable-code"),
        ("```python\nx = '" + "a" * LARGEST + "'\n```", "end", "too-large"),
    ],
)
def test_each_failure_is_one_finding_with_a_remedy(answer, stop, finding):
    found = extract(answer, stop)
    assert not isinstance(found, str)
    assert found.code == finding
    assert found.message.endswith((".", ")")) and len(found.remedy) > 20


def test_prose_in_the_block_is_pointed_at_by_line():
    found = extract("```python\nx = 1\nThis line explains it.\n```")
    assert found.line == 2
    assert found.details["that line"] == "This line explains it."


def test_a_whole_block_before_a_cut_counts():
    assert extract("```python\nx = 1\n```\nand then I would", "length") == "x = 1\n"


def test_the_built_in_tracers_answer_holds_its_candidate_in_a_block(task):
    from codasmith.agent.models import make_model

    model = make_model("builtin:tracer")
    model.prepare(task)
    source = extract(model.answer([], max_tokens=1).text)
    assert isinstance(source, str) and "def linear_bias(acc, bias):" in source
