"""The race of the schedules, and what it leaves to the referee and its runner to agree on."""

from __future__ import annotations

import types

import torch
from codasmith.gate import tune


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
