"""On a Hopper GPU: with batch_invariant=True a row's bits are the same however many rows there are."""

from pathlib import Path

import pytest
import torch
from codasmith.tasks import ProgramTask, Workload, catalogue, draw
from codasmith.verified_kernels import load, store

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)), reason="needs a Hopper GPU"
    ),
]
SHIPPED = Path(store.__file__).parent / "kernels"
MOST = 16384
SOME = (1, 2, 7, 63, 64, 65, 127, 128, 129, 255, 256, 1000, 1024, 4095, 4096, 8192, 12345, 16383, 16384)


def by_row(task):
    """Whether the outputs have a row for each of the first operand's, so that rows may be compared."""
    return all(t.dimensions and t.dimensions[0].symbol == "M" for t in task.outputs.values()) and not task.accumulates


NAMES = sorted(
    p.name
    for p in SHIPPED.iterdir()
    if p.name in catalogue() and not isinstance(catalogue()[p.name], ProgramTask) and by_row(catalogue()[p.name])
)


@pytest.fixture(autouse=True)
def shipped(homes, monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)


def differing(op, inputs, numbers):
    """How many of these numbers of rows change some bit of some row. Waits once, at the end."""
    task = op.task
    rowwise = {n for n, t in task.tensors.items() if t.dimensions and t.dimensions[0].symbol == "M"}

    def run(rows):
        results = op(**{n: v[:rows] if n in rowwise else v for n, v in inputs.items()})
        return results if isinstance(results, tuple) else (results,)

    with torch.no_grad():
        whole = run(MOST)
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        for rows in numbers:
            for part, all_rows in zip(run(rows), whole, strict=True):
                same = part.view(torch.uint8) == all_rows[:rows].view(torch.uint8)
                wrong += ~same.all()
    return wrong.item()


def drawn(task, width):
    sizes = {s: MOST if s == "M" else width for s in task.symbols}
    return draw(task, Workload(sizes=sizes), "cuda")


@pytest.mark.parametrize("name", NAMES)
def test_a_rows_bits_do_not_depend_on_the_number_of_rows(name):
    op = load(name, batch_invariant=True)
    assert differing(op, drawn(op.task, 1024), SOME) == 0


def test_for_every_number_of_rows():
    op = load("residual_partial_rmsnorm", batch_invariant=True)
    assert differing(op, drawn(op.task, 256), range(1, MOST + 1)) == 0
