"""Equal kernels are judged once, and what needs no GPU does not wait for it."""

import threading
import time

import pytest
from codasmith.evals.judging import KEPT, Judged, Judging, TimeUp, only, remember
from codasmith.evals.run_folder import RunFolder
from codasmith.evals.runs import run
from codasmith.gate.verdict import Finding, StageResult, Verdict
from codasmith.tasks import Workload


def verdict(source, status, *stages, tax=None, digest=None):
    read = StageResult(stage="read", outcome="passed", note=source, data={"digest": digest} if digest else {})
    timing = {"tax": tax} if tax else {}
    return Verdict(
        task="t",
        task_digest="d",
        candidate_digest=source,
        tier="closed",
        status=status,
        stages=(read, *stages),
        timing=timing,
    )


class Gate:
    """Checks everything; judges with a tax that grows by the call, as a noisy clock would."""

    def __init__(self, status="passed"):
        self.checked, self.judged, self.status = [], [], status

    def check(self, task, source, **_):
        self.checked.append(source)
        if "WRONG" in source:
            finding = Finding(code="wrong-values", message="no")
            return Judged(verdict(source, "refused", StageResult(stage="interpret", outcome="failed", finding=finding)))
        return Judged(verdict(source, "checked", digest=source.split()[0]))

    def judge(self, task, source, **_):
        self.judged.append(source)
        timing = StageResult(stage="timing", outcome="passed", seconds=3.0)
        return Judged(verdict(source, self.status, timing, tax=1 + len(self.judged) / 100, digest=source.split()[0]))


def ask(judging, source):
    return judging(None, source, tier="closed", progress=lambda *_: None).verdict


def test_two_answers_with_one_graph_get_one_verdict_and_keep_their_own_names(tmp_path):
    gate = Gate()
    judging = Judging(gate.check, gate.judge, tmp_path)
    one, two, other = (ask(judging, s) for s in ("graph1 written so", "graph1 written otherwise", "graph2"))
    assert gate.judged == ["graph1 written so", "graph2"]
    assert (one.tax, two.tax, other.tax) == (1.01, 1.01, 1.02)
    assert two.candidate_digest == "graph1 written otherwise" == two.stages[0].note
    assert [s.stage for s in two.stages] == ["read", "timing"]


def test_judgements_outlive_the_process(tmp_path):
    before, after = Gate(), Gate()
    first = ask(Judging(before.check, before.judge, tmp_path), "graph1")
    again = ask(Judging(after.check, after.judge, tmp_path), "graph1")
    assert again == first and after.judged == []
    (file,) = (tmp_path / KEPT).iterdir()
    file.write_text(file.read_text()[:50])  # as a damaged disk would leave it
    assert ask(Judging(after.check, after.judge, tmp_path), "graph1").tax == 1.01 and after.judged == ["graph1"]


def test_what_is_refused_without_a_gpu_and_a_gate_that_breaks_are_not_kept(tmp_path):
    gate = Gate(status="failed")
    judging = Judging(gate.check, gate.judge, tmp_path)
    assert ask(judging, "graph1 WRONG").status == "refused" and gate.judged == []
    assert [ask(judging, "graph1").status for _ in range(2)] == ["failed", "failed"] and len(gate.judged) == 2
    assert not (tmp_path / KEPT).exists()


def test_without_a_gpu_the_check_is_all(tmp_path):
    gate = Gate()
    assert ask(Judging(gate.check, None, tmp_path), "graph1").status == "checked" and gate.judged == []


@pytest.mark.parametrize("sources", [("g1 a", "g2", "g3", "g4"), ("g1 a", "g1 b", "g1 c", "g1 d")])
def test_checks_go_on_while_the_gpu_is_busy_and_the_gpu_takes_one_at_a_time(tmp_path, sources):
    gate, free, inside = Gate(), threading.Event(), []

    def slow(task, source, **more):
        inside.append(source)
        assert len(inside) == 1
        assert free.wait(30)
        inside.pop()
        return gate.judge(task, source, **more)

    judging = Judging(gate.check, slow, tmp_path)
    found = {}
    threads = [threading.Thread(target=lambda s=s: found.update({s: ask(judging, s)})) for s in sources]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + 30
    while len(gate.checked) < len(sources) and time.monotonic() < ends:
        time.sleep(0.001)
    assert sorted(gate.checked) == sorted(sources) and gate.judged == []
    free.set()
    for thread in threads:
        thread.join()
    assert len(gate.judged) == len({s.split()[0] for s in sources}) and len(found) == len(sources)


def test_what_was_judged_elsewhere_holds_for_equal_candidates(tmp_path):
    gate = Gate()
    remember(tmp_path, gate.judge(None, "graph1 by hand").verdict, "graph1 by hand")
    assert ask(Judging(gate.check, gate.judge, tmp_path), "graph1 traced").tax == 1.01
    assert gate.judged == ["graph1 by hand"]


def test_of_a_judgement_at_more_shapes_only_those_of_the_run_count(tmp_path):
    sizes = [{"M": m, "N": 8, "K": 8} for m in (16, 32)]
    rows = [
        {"workload": {"sizes": s, "storage": "bf16"}, "tax": {"value": t}}
        for s, t in zip(sizes, (1.0, 4.0), strict=True)
    ]
    whole = verdict("s", "passed").model_copy(update={"timing": {"tax": 2.0, "workloads": rows}})
    first, both, fp16 = (
        [Workload(sizes=s) for s in sizes[:1]],
        [Workload(sizes=s) for s in sizes],
        [Workload(sizes=sizes[0], storage="fp16")],
    )
    assert only(whole, first).tax == 1.0 and len(only(whole, first).timing["workloads"]) == 1
    assert only(whole, both).tax == pytest.approx(2.0)
    assert only(whole, fp16) is None
    gate = Gate()
    remember(tmp_path, whole.model_copy(update={"stages": gate.check(None, "g1").verdict.stages}), "g1")
    assert ask(Judging(gate.check, gate.judge, tmp_path, lambda task: first), "g1").tax == 1.0
    assert gate.judged == []
    assert ask(Judging(gate.check, gate.judge, tmp_path, lambda task: fp16), "g1").tax == 1.01


def test_of_a_judgement_at_more_shapes_the_seconds_count_by_the_share_of_the_shapes():
    sizes = [{"M": m, "N": 8, "K": 8} for m in (16, 32, 64)]
    rows = [{"workload": {"sizes": s, "storage": "bf16"}, "tax": {"value": 1.0}} for s in sizes]
    stages = [StageResult(stage=s, outcome="passed", seconds=9.0) for s in ("tune", "numerics", "timing")]
    whole = verdict("s", "passed", *stages).model_copy(update={"timing": {"tax": 1.0, "sol": 0.5, "workloads": rows}})
    part = only(whole, [Workload(sizes=sizes[1])])
    assert [s.seconds for s in part.stages[1:]] == [3.0, 9.0, 3.0]
    assert "sol" not in part.timing, "what is said of all shapes is not said of one"
    assert part.stages[-1].data["workloads"] == rows[1:2]


def test_a_judgement_holds_in_its_own_environment_gate_and_storage_dtype_alone(tmp_path, monkeypatch):
    here = {"gpu": "NVIDIA H200", "driver": "1"}

    def taxes(environment=here, storage="bf16"):
        gate = Gate()
        judge = lambda *a, **k: Judged(gate.judge(*a, **k).verdict.model_copy(update={"environment": environment}))  # noqa: E731
        judging = Judging(gate.check, judge, tmp_path, environment=environment, storage=storage)
        found = ask(judging, "graph1")
        assert set(found.environment) == {"gpu", "driver", "gate"}
        return len(gate.judged)

    assert [taxes(), taxes(), taxes(storage="fp16"), taxes(storage="fp16"), taxes()] == [1, 0, 1, 0, 0]
    assert [taxes({**here, "driver": "2"}), taxes({**here, "driver": "2"})] == [1, 0]
    monkeypatch.setattr("codasmith.evals.judging.edition", lambda: "another")
    assert [taxes({**here, "driver": "2"}), taxes({**here, "driver": "2"})] == [1, 0]


def test_a_judgement_without_the_gates_edition_is_not_taken(tmp_path):
    gate = Gate()
    judging = Judging(gate.check, gate.judge, tmp_path)
    ask(judging, "graph1")
    (file,) = (tmp_path / KEPT).iterdir()
    kept = Verdict.model_validate_json(file.read_text())
    file.write_text(kept.model_copy(update={"environment": {}}).model_dump_json())
    ask(judging, "graph1")
    assert len(gate.judged) == 2


def test_what_has_been_judged_is_read_and_not_compiled_again(tmp_path):
    gate = Gate()
    read = Gate()
    judging = Judging(gate.check, gate.judge, tmp_path, read=read.check)
    one, two = ask(judging, "graph1 written so"), ask(judging, "graph1 written otherwise")
    assert gate.checked == gate.judged == ["graph1 written so"]
    assert two.tax == one.tax and two.candidate_digest == "graph1 written otherwise" == two.stages[0].note
    assert ask(judging, "graph2 WRONG").status == "refused" and gate.checked[-1] == "graph2 WRONG"


def test_once_the_time_is_up_nothing_is_judged(tmp_path):
    gate, up = Gate(), []

    def in_time():
        if up:
            raise TimeUp

    judging = Judging(gate.check, gate.judge, tmp_path, read=gate.check, in_time=in_time)
    ask(judging, "graph1")
    up.append(1)
    assert ask(judging, "graph1 again").tax == 1.01, "what is known costs no time"
    with pytest.raises(TimeUp):
        ask(judging, "graph2")
    assert gate.judged == ["graph1"]


def test_a_run_begins_in_a_folder_that_holds_judgements(tmp_path, four, spec, gate, dice):
    remember(tmp_path / "run", verdict("s", "passed"), "s")
    run(spec(four, "a", samples=1), four, RunFolder(tmp_path / "run"), make=lambda n, t: dice(n, 0.6), gate=gate)
    assert RunFolder(tmp_path / "run").rows()
