"""The loss in blocks of logits: values and gradients of PyTorch's cross_entropy, and what is no target."""

import pytest
import torch
from codasmith.verified_kernels import InputError
from codasmith.verified_kernels.modules import LinearCrossEntropy, loss
from torch.nn.functional import cross_entropy

pytestmark = pytest.mark.filterwarnings("ignore:.*runs its unfused reference")


def close(ours, theirs, tolerance=2e-5):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance * theirs.abs().max().item())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("blocks", [1, 3])
def test_the_loss_is_that_of_cross_entropy(monkeypatch, reduction, blocks):
    torch.manual_seed(0)
    monkeypatch.setattr(loss, "LOGITS", 24 * 128 * (1 if blocks == 3 else 9))
    module = LinearCrossEntropy(16, 24, reduction=reduction, ignore_index=-1)
    x, target = torch.randn(3, 100, 16), torch.randint(0, 24, (3, 100))
    target[1, 20:90] = -1
    found = []
    for ours in (True, False):
        v = x.clone().requires_grad_()
        module.weight.grad = None
        if ours:
            value = module(v, target)
        else:
            logits = (v @ module.weight.T).flatten(0, 1)
            value = cross_entropy(logits, target.flatten(), ignore_index=-1, reduction=reduction)
        (value * torch.linspace(0.5, 2, value.numel()).view(value.shape)).sum().backward()
        found.append((value.detach().flatten(), v.grad, module.weight.grad))
    for mine, theirs in zip(*found, strict=True):
        close(mine, theirs)
    with torch.no_grad():
        close(module(x, target).flatten(), found[1][0])


@pytest.mark.parametrize("frozen", ["weight", "x"])
def test_a_frozen_side_of_the_loss_gets_no_gradient_and_the_other_the_same(monkeypatch, frozen):
    monkeypatch.setattr(loss, "LOGITS", 24 * 128)
    torch.manual_seed(0)
    module, x, target = LinearCrossEntropy(16, 24), torch.randn(300, 16), torch.randint(0, 24, (300,))
    v, w = x.clone().requires_grad_(), module.weight.detach().clone().requires_grad_()
    cross_entropy(v @ w.T, target).backward()
    x.requires_grad_(frozen == "weight")
    module.weight.requires_grad_(frozen == "x")
    (3 * module(x, target)).backward()
    mine, theirs, none = (
        (x.grad, v.grad, module.weight.grad) if frozen == "weight" else (module.weight.grad, w.grad, x.grad)
    )
    close(mine, 3 * theirs)
    assert none is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("rows", [0, 2])
def test_a_loss_over_nothing_and_its_gradients_are_those_of_pytorch(dtype, reduction, rows):
    """A batch without a target must not make NaN of the gradients that others added to the weight's."""
    module = LinearCrossEntropy(16, 24, dtype=dtype, reduction=reduction)
    found = []
    for ours in (True, False):
        x, target = torch.randn(rows, 16, dtype=dtype).requires_grad_(), torch.full((rows,), -100)
        module.weight.grad = None
        value = module(x, target) if ours else cross_entropy(x @ module.weight.T, target, reduction=reduction).float()
        value.sum().backward()
        found.append((value.detach(), x.grad, module.weight.grad))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True)
    assert not found[0][2].any()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("graded", [True, False])
def test_a_target_that_is_no_column_makes_the_loss_nan_where_a_kernel_picks_nothing(reduction, graded):
    """As on a GPU, where a kernel leaves the target's logit as it was in memory."""
    module, target = LinearCrossEntropy(16, 24, reduction=reduction), torch.tensor([3, -1, 5, 24, -100])

    def kernel(x, w, target):
        logits = x @ w.T
        return logits, torch.zeros(len(x)), logits.logsumexp(-1)

    module._forward = kernel
    x = torch.randn(5, 16, requires_grad=graded)
    with torch.set_grad_enabled(graded):
        loss = module(x, target)
    assert loss.isnan().tolist() == ([False, True, False, True, False] if reduction == "none" else True)
    if graded and reduction != "none":
        loss.backward()
        assert x.grad.isnan().any(-1).tolist() == [False, True, False, True, False]


def test_a_target_of_another_shape_an_empty_width_and_an_unknown_reduction_are_one_sentence(monkeypatch):
    monkeypatch.setattr(loss, "LOGITS", 24 * 128)
    module, x = LinearCrossEntropy(16, 24), torch.randn(128, 16)
    for shape in ((256,), (127,), (2, 64)):
        with pytest.raises(InputError, match=r"target has shape \[.*\], and x has shape \[128, 16\]; give target one"):
            module(x, torch.zeros(shape, dtype=torch.int64))
    with pytest.raises(ValueError, match="reduction is 'median'; it must be"):
        LinearCrossEntropy(16, 24, reduction="median")
    with pytest.raises(ValueError, match="hidden is 16 and vocabulary 0; give each 1 or more"):
        LinearCrossEntropy(16, 0)
