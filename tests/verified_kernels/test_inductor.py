"""Operators are known to Inductor before it meets them, with the layouts that it would give them itself."""

import pytest
import torch
from codasmith.verified_kernels import inductor, load
from codasmith.verified_kernels.modules import rows  # noqa: F401 (its operators are announced)


@pytest.mark.filterwarnings("ignore:.*unfused reference", "ignore:.*no admitted kernel")
def test_a_trace_gives_every_announced_operator_a_fallback_that_keeps_strides():
    operator, other = load("linear_bias"), load("linear_bias_relu_sq")
    x, w, b = torch.randn(3, 8), torch.randn(16, 8), torch.randn(16)
    made = torch.compile(operator, fullgraph=True, backend="aot_eager")(x, w, b)
    assert torch.equal(made, operator(x, w, b)) and not inductor._waiting
    from torch._inductor import lowering

    for overload in (operator.overload, other.overload, torch.ops.codasmith_rows.dlogits.default):
        assert overload in lowering.lowerings
        assert lowering.maybe_layout_constraints(overload) is not None
