"""docs/kernels.md from the records in the registry: `python benchmarks/table.py > docs/kernels.md`."""

from __future__ import annotations

import math
import statistics

from codasmith.tasks import catalogue
from codasmith.verified_kernels import store
from codasmith.verified_kernels.record import Evidence, Record, Timing

HEAD = """\
# Kernels

Made by `python benchmarks/table.py > docs/kernels.md` from the records of the kernels that ship with the package.
Every figure was measured by the gate (`python benchmarks/admit.py TASK`) on the GPU and date named in the record.

- **tax**: time of the fused kernel, finishing kernels included, over the bare GEMM of the same shape (the better of the
  template without an epilogue and cuBLAS, in the same rounds); 1.00 means that the epilogue is free.
- **eager**, **compile**: speed-up over the task's reference in the storage dtype, as written and through torch.compile,
  each recorded as a CUDA graph so that no host time counts. Brackets: bootstrap 95 % interval over rounds.
- **SoL**: the data sheet's roofline over the measured time.
"""


def main() -> None:
    entries, problems = store.scan(where=(store.SHIPPED,))
    if problems:
        raise SystemExit("\n".join(problems))
    entries.sort(key=lambda e: (_level(e.record.task), e.record.task, e.record.tier))
    print(HEAD)
    gpus = sorted(
        {(e.environment.get("gpu", "?"), e.environment.get("driver", "?")) for r in entries for e in r.record.evidence}
    )
    print("Measured on: " + "; ".join(f"{gpu}, driver {driver}" for gpu, driver in gpus) + ".\n")
    print("| kernel | level | tier | storage | sizes | schedule | ms | tax | eager | compile | SoL |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    taxes: list[float] = []
    compiles: list[float] = []
    for entry in entries:
        for evidence in entry.record.evidence:
            for line, timing in _rows(entry.record, evidence):
                print(line)
                if timing.tax:
                    taxes.append(timing.tax.value)
                if timing.over_compile:
                    compiles.append(timing.over_compile.value)
    print(f"\n{len(entries)} kernels, {len(taxes)} shapes. Geometric means: tax {_mean(taxes):.3f}, ", end="")
    print(f"{_mean(compiles):.3f}x torch.compile.")


def _rows(record: Record, evidence: Evidence) -> list[tuple[str, Timing]]:
    rows = []
    for seen in evidence.workloads:
        for timing in seen.timings:
            if timing.tax is None:
                continue
            sizes = " ".join(f"{k}{v}" for k, v in seen.workload.sizes.items())
            cells = [
                record.task,
                str(_level(record.task)),
                record.tier,
                evidence.storage,
                sizes,
                timing.schedule,
                f"{timing.milliseconds.value:.3f}" if timing.milliseconds else "-",
                str(timing.tax),
                str(timing.over_eager or "-"),
                str(timing.over_compile or "-"),
                f"{timing.sol.value:.2f}" if timing.sol else "-",
            ]
            rows.append(("| " + " | ".join(cells) + " |", timing))
    return rows


def _level(task: str) -> int:
    found = catalogue().get(task)
    return found.level if found else 0


def _mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


if __name__ == "__main__":
    main()
