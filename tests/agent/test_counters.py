"""Counters of Nsight Compute: what its lines mean, and that a campaign goes on where it gives none."""

import sys
import time
from dataclasses import dataclass, field

import pytest
from codasmith.agent import counters, loop
from codasmith.agent.budget import Budget
from codasmith.agent.counters import METRICS, NoCounters, collect, counted, parse, told
from codasmith.agent.journal import Journal, read
from codasmith.gate.pipeline import bare_kernels
from codasmith.gate.verdict import StageResult, Verdict
from codasmith.tasks import load_task

HEADING = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
)


def line(metric, unit, value):
    return (
        '"0","4242","python3.12","127.0.0.1","kernel_cutlass_GemmSm90_0","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0",'
        f'"Command line profiler metrics","{metric}","{unit}","{value}"\n'
    )


def stall(reason, value):
    return line(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio", "inst", value)


GIVEN = (
    "==PROF== Connected to process 4242 (/usr/bin/python3.12)\n@@ begin kernel\n"
    '==PROF== Profiling "kernel_cutlass_GemmSm90_0" - 0: 0%....50%....100% - 12 passes\n@@ end kernel\n'
    "==PROF== Disconnected from process 4242\n"
    + HEADING
    + line("dram__bytes_read.sum", "byte", "67,108,864")
    + line("dram__bytes_write.sum", "byte", "33,554,432")
    + line("launch__registers_per_thread", "register/thread", "168")
    + line("lts__t_sector_hit_rate.pct", "%", "85.21")
    + line("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%", "71.06")
    + line("sm__warps_active.avg.pct_of_peak_sustained_active", "%", "n/a")
    + stall("long_scoreboard", "1.25")
    + stall("barrier", "0.10")
    + stall("short_scoreboard", "2.50")
    + stall("wait", "0")
    + stall("gmma", "4.75")
)
DENIED = (
    "==PROF== Connected to process 7 (/usr/bin/python3.12)\n==ERROR== ERR_NVGPUCTRPERM - The user does not have "
    "permission to access NVIDIA GPU Performance Counters on the target device 0.\n@@ end kernel\n"
)


def test_values_are_read_by_metric_past_the_lines_of_ncu_and_of_the_program():
    values = parse(GIVEN)
    assert values["dram__bytes_read.sum"] == 67_108_864 and values["lts__t_sector_hit_rate.pct"] == 85.21
    assert "sm__warps_active.avg.pct_of_peak_sustained_active" not in values, "n/a is no number"
    assert len(values) == 10 and parse(DENIED) == {} == parse('"a","b"\n"Metric Name"\n')


def test_columns_are_found_by_their_names():
    assert parse('"Metric Value","Kernel Name","Metric Name"\n"3","k","launch__registers_per_thread"\n') == {
        "launch__registers_per_thread": 3.0
    }


def test_a_model_is_told_traffic_shares_registers_and_the_three_worst_waits():
    lines = told({"schedule": "128x128-pingpong-2x1", "sizes": {"M": 4096, "N": 4096}, "values": parse(GIVEN)})
    assert lines == [
        "counters, M4096 N4096, schedule 128x128-pingpong-2x1: read 67 MB of DRAM and wrote 34 MB, hits in L2 85 %, "
        "tensor pipe active 71 %, 168 registers a thread",
        "what its warps wait for most, in warps an instruction issued: the tensor core (gmma, 4.75); shared memory, "
        "or slow functions such as exp and tanh (short_scoreboard, 2.50); global or local memory, spills too "
        "(long_scoreboard, 1.25)",
    ]
    assert told({"missing": "No counters: ..."}) == [] == told({})


@dataclass(frozen=True)
class Evaluation:
    verdict: Verdict
    source: str = "x = 1\n"
    tier: str = "closed"
    objects: dict = field(default_factory=dict)
    signatures: dict = field(default_factory=dict)


NCU = """#!{python}
import json, os, sys
names = sys.argv[sys.argv.index("--metrics") + 1].split(",")
job = json.load(open(sys.argv[-1]))
(item,) = job["items"]
assert open(item["path"], "rb").read() == b"object" and item["sizes"] == [{{"M": 512, "N": 512, "K": 512}}]
assert sys.argv[-3:-1] == ["-m", "codasmith.gate.sanitized"] and "--csv" in sys.argv
assert "SOME_API_KEY" not in os.environ and os.environ["LC_ALL"] == "C"
{body}
"""


@pytest.fixture
def passed(tmp_path):
    """A kernel that passed, of an object that is none."""
    (tmp_path / "kernel.so").write_bytes(b"object")
    row = {"workload": {"sizes": {"M": 512, "N": 512, "K": 512}}, "schedule": "s", "tax": 1.2}
    verdict = Verdict(
        task="linear_bias",
        task_digest="d",
        candidate_digest="c",
        status="passed",
        stages=(StageResult(stage="timing", outcome="passed", seconds=2.0, data={"workloads": [row]}),),
        timing={"tax": 1.2, "workloads": [row]},
    )
    signature = bare_kernels(load_task("linear_bias"), "bf16")[0][1]
    return Evaluation(verdict, objects={"s": tmp_path / "kernel.so"}, signatures={"s": signature})


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    """ncu(body): a program of that name that does this."""

    def make(body):
        program = tmp_path / "ncu"
        program.write_text(NCU.format(python=sys.executable, body=body))
        program.chmod(0o755)
        monkeypatch.setattr(counters, "tool", lambda: str(program))
        monkeypatch.setenv("SOME_API_KEY", "secret")

    return make


def test_the_fastest_object_is_run_under_ncu_on_the_first_timed_sizes(passed, ncu):
    ncu(f"print({GIVEN!r})")
    found = collect(passed)
    assert found["schedule"] == "s" and found["values"] == parse(GIVEN)


def test_metrics_that_a_gpu_does_not_have_are_left_out(passed, ncu):
    ncu(
        'bad = [n for n in names if "gmma" in n or "imc_miss" in n]\n'
        "for n in bad:\n"
        '    print("==ERROR== Failed to find metric regex:^" + n.split(".")[0] + "(...)$")\n'
        f"print({GIVEN!r} if not bad and len(names) == {len(METRICS) - 2} else '')"
    )
    assert collect(passed)["values"] == parse(GIVEN)


@pytest.mark.parametrize(
    "body, words",
    [
        (f"print({DENIED!r})", "ERR_NVGPUCTRPERM); run as root"),
        ("print('==WARNING== No kernels were profiled.')", "No kernels were profiled."),
        ("print('@@ failed kernel OutOfMemoryError: no room')", "OutOfMemoryError: no room"),
        ("print('==ERROR== Failed to find metric regex:^' + names[0]); sys.exit(1)", "Failed to find metric"),
        ("sys.exit(3)", "it said nothing"),
    ],
)
def test_what_ncu_cannot_do_is_one_sentence(passed, ncu, body, words):
    ncu(body)
    with pytest.raises(NoCounters) as raised:
        collect(passed)
    said = str(raised.value)
    assert said.startswith("No counters: ") and words in said and "\n" not in said


def test_an_ncu_that_hangs_is_stopped_with_all_that_it_started(passed, ncu):
    ncu("import subprocess, time\nsubprocess.Popen(['sleep', '60'])\ntime.sleep(60)")
    began = time.monotonic()
    with pytest.raises(NoCounters, match="took longer than 1 s and was stopped"):
        collect(passed, limit_s=1.0)
    assert time.monotonic() - began < 10


def test_counters_go_into_the_journal_and_into_the_next_question(passed, ncu, task, scripted, tmp_path):
    ncu(f"print({GIVEN!r})")
    model = scripted("```python\nx = 1\n```", "I give up.")
    with Journal(tmp_path / "run.jsonl") as journal:
        gate = counted(lambda task, source, **_: passed)
        loop.run(task, model, budget=Budget(attempts=2), gate=gate, journal=journal, target_tax=1.0)
    assert "- counters, M512 N512 K512, schedule s: read 67 MB" in model.asked[1][-1].content
    stage = next(e for e in read(tmp_path / "run.jsonl")[0] if e["event"] == "verdict")["verdict"]["stages"][0]
    assert stage["data"]["counters"]["values"] == parse(GIVEN) and stage["seconds"] > 2.0


def test_without_ncu_a_campaign_says_so_once_a_kernel_and_goes_on(passed, monkeypatch):
    monkeypatch.setattr(counters.shutil, "which", lambda name: None)
    monkeypatch.setattr(counters.Path, "exists", lambda self: False)
    said = []
    found = counted(lambda task, source, **_: passed, said.append)(None, "x = 1\n")
    assert found.verdict.status == "passed" and found.verdict.tax == 1.2
    assert said == ["No counters: ncu was not found; it comes with Nsight Compute, a part of the CUDA toolkit."]
    assert found.verdict.stages[0].data["counters"] == {"missing": said[0]}


def test_a_candidate_that_did_not_pass_is_not_run_under_ncu(passed, monkeypatch):
    monkeypatch.setattr(counters, "collect", lambda *_: pytest.fail("asked for counters"))
    refused = Evaluation(passed.verdict.model_copy(update={"status": "refused"}))
    assert counted(lambda task, source, **_: refused)(None, "") is refused


@pytest.mark.gpu
@pytest.mark.skipif(not counters.shutil.which("ncu"), reason="ncu is not installed")
def test_a_real_kernel_has_counters_that_can_be():
    from pathlib import Path

    from codasmith import gate, verified_kernels
    from codasmith.tasks import Workload
    from codasmith.templates.schedule import SCHEDULES

    source = (Path(verified_kernels.__file__).parent / "hand_written" / "linear_bias_gelu.py").read_text()
    task = load_task("linear_bias_gelu")
    found = gate.evaluate(
        task,
        source,
        schedules=SCHEDULES[3:4],
        workloads=[Workload(sizes={"M": 2048, "N": 2048, "K": 2048})],
        compile_baseline=False,
        rounds=9,
    )
    assert found.verdict.status == "passed", found.verdict.finding
    try:
        values = collect(found)["values"]
    except NoCounters as error:
        if "ERR_NVGPUCTRPERM" in str(error):
            pytest.skip(str(error))
        raise
    print(*told({"schedule": SCHEDULES[3].name, "sizes": {"M": 2048}, "values": values}), sep="\n")
    assert 8e6 < values["dram__bytes_read.sum"] < 1e8, "two matrices of 8 MB, and little more"
    assert 0 < values["launch__registers_per_thread"] <= 255
    assert 0 < values["sm__warps_active.avg.pct_of_peak_sustained_active"] <= 100
    assert sum("issue_stalled" in name for name in values) >= 5
