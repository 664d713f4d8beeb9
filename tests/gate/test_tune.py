"""The race of the schedules, and what it leaves to the referee and its runner to agree on."""

from __future__ import annotations

import types

import torch
from codasmith.gate import tune, tune_program
from codasmith.tasks import load_task


def test_what_was_laid_out_is_there_before_the_runner_launches_anything(monkeypatch):
    """Else a kernel that adds in place does so before the referee has copied what it must restore."""
    happened = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: happened.append("settled"))
    monkeypatch.setattr(tune, "bind", lambda *_: ["call"])
    runner = types.SimpleNamespace(call=lambda op, **_: happened.append(op))
    replay = tune.record(types.SimpleNamespace(runner=runner), "kernel", types.SimpleNamespace(), [])
    assert happened == ["settled", "graph"]
    replay(1)
    assert happened[2:] == ["replay"]


def test_schedules_race_in_single_passes_each_over_content_that_no_call_has_seen(monkeypatch):
    """As they are timed later: at the power limit, where pauses are missing, other schedules win."""
    happened = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(
        tune, "record", lambda _referee, name, _item, _sets: lambda times: happened.append((name, times))
    )
    sets = [types.SimpleNamespace(freshen=lambda: happened.append(("fresh", 1)))]
    items = [types.SimpleNamespace(schedule=name, key=name) for name in "ab"]
    times = tune.race(types.SimpleNamespace(), items, sets, fresh=True)
    assert set(times) == {"a", "b"}
    raced = [event for event in happened[happened.index(("fresh", 1)) :] if event[1]]
    assert raced[0::2] == [("fresh", 1)] * (len(raced) // 2) and len(raced) == 4 * 2 * (tune.ROUNDS + 1)
    assert {event for event in raced[1::2]} == {("tune-a", 1), ("tune-b", 1)}


def test_what_the_race_cannot_tell_apart_is_timed_and_no_more_than_ships():
    one = {"a": 1.0, "b": 1.01, "c": 1.03, "d": 1.2, "e": 1.039}
    assert tune.contenders(list(one), [one]) == ["a", "b", "c", "e"]
    other = {"a": 1.3, "b": 1.3, "c": 1.3, "d": 1.0, "e": 1.3}
    assert set(tune.contenders(list(one), [one, other])[:2]) == {"a", "d"}, "each workload's fastest comes first"
    assert len(tune.contenders(list("abcdef"), [dict.fromkeys("abcdef", 1.0)])) == tune.MOST_GATED
    assert tune.contenders(["a", "b"], []) == ["a", "b"]


def test_a_program_whose_first_stage_is_no_product_reads_what_was_laid_out(monkeypatch):
    """Else its products race on what a row kernel made of an empty block."""
    happened = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: happened.append("settled"))
    monkeypatch.setattr(tune_program, "prepare", lambda *_: happened.append("laid out") or [types.SimpleNamespace()])
    monkeypatch.setattr(tune_program, "bind_formula", lambda *_: None)
    monkeypatch.setattr(tune_program, "race", lambda *_: happened.append("raced") or {"a": 1.0})
    referee = types.SimpleNamespace(runner=types.SimpleNamespace(call=lambda op, **_: happened.append(op)))
    task = load_task("linear_cross_entropy_bwd")
    job = types.SimpleNamespace(say=lambda *_: None)
    tune_program._times(referee, job, task, {stage: [] for stage in task.parts}, task.workloads()[0])
    assert happened[:4] == ["laid out", "settled", "launch", "forget"] and happened.count("raced") == len(task.parts)
