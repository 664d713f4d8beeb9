"""The scripted model does what its skill says, so that a published run can be held against it."""

import importlib.util
from pathlib import Path

import pytest
from codasmith.agent.models import Message
from codasmith.agent.models.command import as_text
from codasmith.agent.prompt import system_text, task_text
from codasmith.gate.interpret import interpret_stage
from codasmith.gate.read import read_stage
from codasmith.tasks import catalogue

FILE = Path(__file__).parents[2] / "benchmarks" / "scripted_model.py"
SPEC = importlib.util.spec_from_file_location("scripted_model", FILE)
scripted = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(scripted)
TASKS = catalogue()


def judged(task, text):
    source = text.split("```python\n")[1].split("```")[0]
    found, graph = read_stage(task, source, "closed")
    return (interpret_stage(task, graph) if graph else found).outcome, source


def conversation(task, answers):
    turns = [Message(role="system", content=system_text(task)), Message(role="user", content=task_text(task))]
    for answer in answers:
        turns += [Message(role="assistant", content=answer), Message(role="user", content="It is off.")]
    text = as_text(turns)
    assert text.count("# Task: ") > 1, "the example's task stands there too"
    return text


@pytest.mark.parametrize("skill", [scripted.SURE, scripted.CORRECTED, scripted.LOST])
def test_answers_are_right_and_wrong_as_its_skill_says(skill):
    right = {scripted.SURE: [True, True], scripted.CORRECTED: [False, True], scripted.LOST: [False, False]}[skill]
    for name in [n for n in TASKS if scripted.skill(n) == skill][:5]:
        answers = []
        for good in right:
            answers.append(scripted.answer(conversation(TASKS[name], answers)))
            outcome, source = judged(TASKS[name], answers[-1])
            assert (outcome == "passed") == good, name
            assert (source == scripted.right(name)) == good
        assert good or answers[0] != answers[1]


def test_every_task_has_a_skill_and_all_three_occur():
    skills = [scripted.skill(n) for n in TASKS if scripted.right(n)]
    assert len(skills) == len(TASKS) and set(skills) == {scripted.SURE, scripted.CORRECTED, scripted.LOST}
    assert scripted.answer("===== system =====\n\n===== user =====\n# Task: nothing\n") == "I know no such task."
