"""What a measurement says of the kernels that it used."""

import pytest
from codasmith.tasks import Workload, draw
from codasmith.verified_kernels import admit, load
from codasmith.verified_kernels.in_use import kernels_in_use

pytestmark = pytest.mark.filterwarnings("ignore:.*runs its unfused reference")
SIZES = {"M": 5, "F": 8, "N": 24, "K": 16}


def test_the_kernels_that_ran_are_named_by_digest_schedule_and_object(fake_kernel, sample, evaluation):
    ops = {}
    for name in ("sample_gated", "sample_select", "sample_accumulate"):
        admit(evaluation(sample(name)), sample(name), author="x")
        ops[name] = load(sample(name))
    assert not set(kernels_in_use()) & {op.qualified for op in ops.values()}

    def call(name, dtype=None):
        inputs = draw(ops[name].task, Workload(sizes={s: SIZES[s] for s in ops[name].task.symbols}))
        ops[name](**{k: v.double() if dtype and k in "xw" else v for k, v in inputs.items()})

    call("sample_gated")
    call("sample_select", "double")  # its reference
    found = kernels_in_use()
    entry = ops["sample_gated"].entry
    ran, objects = found[ops["sample_gated"].qualified]
    assert ran == f"{entry.name} with schedule {fake_kernel[0]}"
    (used,) = (o for o in entry.record.objects if o.schedule == fake_kernel[0])
    assert objects == f"objects {used.sha256[:12]}"
    assert not {ops["sample_select"].qualified, ops["sample_accumulate"].qualified} & set(found)
