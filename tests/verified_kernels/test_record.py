"""The record says what the gate's stages measured, and keeps saying it through JSON."""

from codasmith.gate.verdict import STAGES, StageResult
from codasmith.tasks import Workload
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels import admit
from codasmith.verified_kernels.record import Measure, Record

FIRST, SECOND = (s.name for s in SCHEDULES[:2])
TIMED = {"sizes": {"M": 4096, "N": 4096, "K": 4096}, "storage": "bf16", "family": "normal", "seed": 0}
CHECKED = {"sizes": {"M": 16, "N": 200, "K": 72}, "storage": "bf16", "family": "large", "seed": 7}


def _error(output, kernel):
    sizes = {"kernel_max": kernel, "kernel_rms": kernel / 4, "unfused_max": 2e-3, "unfused_rms": 5e-4}
    return {"output": output, **sizes, "bound_max": 6e-3, "bound_rms": 2e-3, "scale_max": 1.0, "misplaced": 0}


def _rows(workload):
    return [
        {"workload": workload, "schedule": s, "errors": [_error("picked", e)]}
        for s, e in ((FIRST, 1e-3), (SECOND, 3e-3))
    ]


DATA = {
    "tune": {
        "milliseconds": {Workload(**TIMED).label: {FIRST: 0.2, SECOND: 0.19}},
        "gated": [SECOND, FIRST],
        "best": [{"sizes": TIMED["sizes"], "schedule": SECOND}],
    },
    # The seeds of what was checked are the referee's own.
    "numerics": {"workloads": [*_rows(CHECKED), *_rows({**TIMED, "seed": 123456})], "worst": 0.5},
    "guards": {"runs": 12, "deterministic": True},
}
TIMING = {
    "tax": 1.04,
    "workloads": [
        {
            "workload": TIMED,
            "schedule": SECOND,
            "milliseconds": {"kernel": 0.187, "cublas": 0.18, "eager": 0.3, "compile": 0.22},
            "bare": "cublas",
            "tax": {"value": 1.04, "low": 1.03, "high": 1.05},
            "over_eager": {"value": 1.6, "low": 1.5, "high": 1.7},
            "over_compile": {"value": 1.18, "low": 1.16, "high": 1.2},
            "sol": 0.81,
            "rounds": 11,
        }
    ],
}


def test_the_record_says_what_was_measured(sample, evaluation):
    task = sample("sample_select")
    stages = tuple(StageResult(stage=s, outcome="passed", data=DATA.get(s, {}), note=f"note of {s}") for s in STAGES)
    record = admit(evaluation(task, stages=stages, timing=TIMING), task, author="x").record
    evidence = record.of("bf16")
    assert record.tax == 1.04 and record.numerics.deterministic and "at worst 0.50" in record.numerics.bound
    assert [(b.sizes, b.schedule) for b in evidence.best] == [(TIMED["sizes"], SECOND)]
    checked, timed = evidence.workloads
    assert (checked.workload.family, checked.workload.seed, checked.timings) == ("large", 7, ())
    assert [(e.schedule, e.output, e.kernel_max, e.bound_max) for e in checked.errors] == [
        (FIRST, "picked", 1e-3, 6e-3),
        (SECOND, "picked", 3e-3, 6e-3),
    ]
    assert len(timed.errors) == 2 and timed.workload.sizes == TIMED["sizes"]
    best, other = timed.timings
    assert (best.schedule, best.milliseconds.value, best.bare) == (SECOND, 0.187, "cublas")
    assert best.tax == Measure(value=1.04, low=1.03, high=1.05) and best.sol == Measure(value=0.81)
    assert best.others == {"cublas": 0.18, "eager": 0.3, "compile": 0.22}
    assert (other.schedule, other.milliseconds.value, other.tax) == (FIRST, 0.2, None)
    assert evidence.stages["numerics"] == "passed: note of numerics"
    assert Record.loads(record.dumps(), "text") == record


def test_a_measure_shows_its_interval():
    assert str(Measure(value=1.0)) == "1.000"
    assert str(Measure(value=1.04, low=1.03, high=1.05)) == "1.040 [1.030, 1.050]"
