"""On a GPU of another architecture the reference answers, with one warning; nothing is loaded."""

import warnings

import pytest
import torch
from codasmith.tasks import Workload, draw, unfused
from codasmith.verified_kernels import FallbackWarning, OutsideDomain, admit, load, runner
from codasmith.verified_kernels.runner import _no_hopper


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0)])
def test_another_architecture_gets_the_reference_and_one_warning(
    fake_kernel, sample, evaluation, monkeypatch, capability
):
    monkeypatch.setattr(runner, "_capability", lambda index: capability)
    monkeypatch.setattr(runner, "_no_hopper", lambda device: _no_hopper(torch.device("cuda", 0)))
    task = sample("sample_select")
    admit(evaluation(task), task, author="x")
    inputs = draw(task, Workload(sizes={"M": 5, "N": 24, "K": 16}))
    op = load(task)
    with pytest.warns(FallbackWarning, match=rf"compute capability {capability[0]}\.{capability[1]}, and .* need 9\.0"):
        picked = op(**inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(op(**inputs), picked) and torch.equal(picked, unfused(task, inputs)["picked"])
    with pytest.raises(OutsideDomain, match="compute capability"):
        load(task, strict=True)(**inputs)
    assert fake_kernel == []
