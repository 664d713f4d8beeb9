"""Bad inputs to an operator, in a matrix: each works, by the reference, or gives one sentence."""

import warnings

import pytest
import torch
from codasmith.tasks import ProgramTask, Workload, draw, shipped, shipped_task
from codasmith.templates import launch
from codasmith.verified_kernels import FallbackWarning, InputError, OutsideDomain, admit, load, runner, store
from codasmith.verified_kernels.assembly import whole

SIZES = {
    "sample_gated": {"M": 5, "F": 8, "K": 16},
    "sample_select": {"M": 5, "N": 24, "K": 16},
    "sample_accumulate": {"M": 5, "N": 24, "K": 16},
}


REFUSE = launch.refuse


class OnGpu(torch.Tensor):
    """A tensor of this machine's memory that says it is on a GPU, so that the template's own rules can be asked."""

    is_cuda = property(lambda self: True)
    device = property(lambda self: torch.device("cuda", 0))


def on_gpu(value):
    return value.as_subclass(OnGpu) if isinstance(value, torch.Tensor) else value


@pytest.fixture
def op(fake_kernel, sample, evaluation, monkeypatch):
    """Operators with a kernel behind them that refuses as a real one does."""

    def make(name, refuse=REFUSE, **options):
        admit(evaluation(sample(name)), sample(name), author="x")
        monkeypatch.setattr(runner.template, "refuse", refuse)
        return load(sample(name), **options)

    return make


def inputs_of(task):
    return draw(task, Workload(sizes=SIZES[task.name]))


def off_by_one(t):
    """The same values, two bytes behind an aligned address."""
    memory = torch.empty(t.numel() + 1, dtype=t.dtype)
    return memory[1:].copy_(t.flatten()).view(t.shape)


MATRIX = {
    "wrong dtype of the product": ({"x": lambda t: t.float()}, "x is f32, and the kernel was verified for bf16"),
    "wrong dtype of an operand": ({"rstd": lambda t: t.half()}, "rstd is torch.float16, and torch.float32 is wanted"),
    "two storage dtypes": ({"w": lambda t: t.half()}, "w is torch.float16, and torch.bfloat16 is wanted"),
    "transposed": ({"x": lambda t: t.T.contiguous().T}, "x is not contiguous (strides [1, 5]); call .contiguous()"),
    "every second row": ({"x": lambda t: t.repeat_interleave(2, 0)[::2]}, "x is not contiguous"),
    "every second element of a vector": ({"rstd": lambda t: t.repeat_interleave(2)[::2]}, "rstd is not contiguous"),
    "expanded, stride 0": ({"x": lambda t: t[:1].expand(5, -1)}, "x is not contiguous (strides [0, 1]"),
    "expanded vector": ({"rstd": lambda t: t[:1].expand(5)}, "rstd is not contiguous (strides [0])"),
    "misaligned matrix": ({"w": off_by_one}, "w starts at an address that is no multiple of 16 bytes"),
    "misaligned vector": ({"rstd": off_by_one}, "rstd starts at an address that is no multiple of 16 bytes"),
    "ragged depth": ({k: lambda t: t[:, :12].contiguous() for k in "xw"}, "x is 12 wide, and that must be a multiple"),
    "ragged width": ({"w": lambda t: t[:12].contiguous()}, "the output o would be 6 wide"),
    "M is 0": ({k: lambda t: t[:0] for k in ("x", "rstd")}, "the output o [M, F] would be empty"),
    "F is 0": ({"w": lambda t: t[:0]}, "the output o [M, F] would be empty"),
    "K is 0": ({k: lambda t: t[:, :0] for k in "xw"}, "the dimension K is 0; the kernel needs at least one"),
}


@pytest.mark.parametrize("case", MATRIX)
def test_what_the_kernel_cannot_take_is_one_sentence_and_the_reference_answers(op, sample, fake_kernel, case):
    changes, words = MATRIX[case]
    task = sample("sample_gated")
    gated, inputs = op("sample_gated", strict=True), inputs_of(task)
    assert gated.why_not(*map(on_gpu, inputs.values())) is None
    bad = {k: changes[k](v) if k in changes else v for k, v in inputs.items()}
    reason = gated.why_not(*map(on_gpu, bad.values()))
    assert words in reason and "\n" not in reason
    with pytest.raises(OutsideDomain) as caught:
        gated._runner(*map(on_gpu, bad.values()))
    assert reason in str(caught.value)
    if case in ("two storage dtypes", "wrong dtype of the product"):  # plain PyTorch does not multiply them either
        with (
            pytest.warns(FallbackWarning),
            pytest.raises(InputError, match=r"; convert them to one dtype \(.*") as caught,
        ):
            load(sample("sample_gated"))(**bad)
        assert "\n" not in str(caught.value)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        plain = load(sample("sample_gated"))
        answers = dict(
            zip(task.outputs, plain(**{k: v.clone() if k in changes else v for k, v in bad.items()}), strict=True)
        )
        again = plain(**bad)
    assert fake_kernel == []
    for one, two in zip(answers.values(), again, strict=True):
        assert torch.equal(one, two) and one.is_contiguous()


@pytest.mark.filterwarnings("ignore:.*nested tensors", "ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": lambda t: t[0]}, r"x has shape \[16\]; give it the shape \[M K\]"),
        ({"x": lambda t: t[None]}, r"x has shape \[1, 5, 16\]; give it the shape \[M K\]"),
        ({"rstd": lambda t: t[:, None]}, r"rstd has shape \[5, 1\]; give it the shape \[M\]"),
        ({"rstd": lambda t: t[:4]}, r"rstd has shape \[4\], and x says M = 5"),
        ({"rstd": lambda t: 1.0}, "rstd is a float; pass a tensor"),
        ({"alpha": lambda t: torch.ones(1)}, "alpha is a Tensor; pass a Python number"),
        ({"x": lambda t: None}, "x is a NoneType; pass a tensor"),
        ({"alpha": lambda t: None}, "alpha is a NoneType; pass a Python number"),
        ({"alpha": lambda t: "1"}, "alpha is a str; pass a Python number"),
        ({"x": lambda t: t.to_sparse()}, r"x has the layout torch.sparse_coo; pass x.to_dense\(\)"),
        ({"x": lambda t: torch.nested.nested_tensor([t, t])}, r"x is a nested tensor; pass one of shape \[M K\]"),
        (
            {"x": lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8)},
            r"x is torch.qint8; pass x.dequantize\(\)",
        ),
        ({"x": lambda t: t.long(), "w": lambda t: t.long()}, "x is torch.int64; convert it to a floating-point dtype"),
        ({"rstd": lambda t: t.to(torch.complex64)}, "rstd is torch.complex64; convert it to a floating-point dtype"),
        ({"w": lambda t: t.to("meta")}, r"different devices \(x on cpu, w on meta, rstd on cpu\); move them to one"),
    ],
)
def test_what_fits_no_task_is_an_error_in_every_mode(op, sample, changes, words):
    inputs = inputs_of(sample("sample_gated"))
    for strict in (False, True):
        with pytest.raises(InputError, match=words) as caught:
            op("sample_gated", strict=strict)(**{k: changes[k](v) if k in changes else v for k, v in inputs.items()})
        assert "\n" not in str(caught.value)


def test_tensors_on_different_devices_are_an_error(op, sample):
    inputs = inputs_of(sample("sample_gated"))
    mixed = [v if k == "rstd" else on_gpu(v) for k, v in inputs.items()]
    with pytest.raises(
        InputError, match=r"different devices \(x on cuda:0, w on cuda:0, rstd on cpu\); move them to one"
    ):
        op("sample_gated")._runner(*mixed)


def test_a_maximum_of_nothing_is_one_sentence(sample):
    from codasmith.tasks import load_task

    with pytest.warns(FallbackWarning):
        op = load(load_task("linear_col_absmax"))
    w = torch.ones(8, 16, dtype=torch.bfloat16)
    with pytest.raises(InputError, match=r"linear_col_absmax has no answer where M is 0; give it 1 or more \(.*"):
        op(torch.ones(0, 16, dtype=torch.bfloat16), w, torch.ones(8, dtype=torch.bfloat16))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.float(), "target is torch.float32 and holds indices; convert it to torch.int64"),
        (lambda t: t - 30, "target holds -30, and N is 24; give it 0 to N - 1"),
        (lambda t: t + 30, "target holds 30, and N is 24; give it 0 to N - 1"),
    ],
)
def test_indices_of_another_kind_or_outside_are_one_sentence(op, sample, change, words):
    x, w, target = inputs_of(sample("sample_select")).values()
    target[:2] = torch.tensor([0, 23])
    with pytest.raises(InputError, match=words) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        load(sample("sample_select"))(x, w, change(target))
    assert "\n" not in str(caught.value)


def test_whole_numbers_of_another_width_are_named_where_the_reference_takes_none():
    x, w = torch.randn(5, 16), torch.randn(8, 16)
    with pytest.warns(FallbackWarning):
        op = load("linear_cross_entropy")
    with pytest.raises(InputError, match=r"target is torch.int32; convert it to torch.int64"):
        op(x, w, torch.zeros(5, dtype=torch.int32))
    assert op(x, w, torch.zeros(5, dtype=torch.int64))[0].shape == (5,)


def test_without_memory_only_shapes_and_dtypes_come_back(sample):
    with pytest.warns(FallbackWarning):
        o, total = load(sample("sample_gated"))(
            *(v.to("meta") if isinstance(v, torch.Tensor) else v for v in inputs_of(sample("sample_gated")).values())
        )
    assert (o.device.type, o.shape, o.dtype) == ("meta", (5, 8), torch.bfloat16)
    assert (total.shape, total.dtype) == ((5,), torch.float32)


@pytest.mark.parametrize("strides", [(0, 1), (1, 1), (12, 1), (1, 4)])
def test_writing_in_place_where_elements_share_memory_is_one_sentence(op, sample, fake_kernel, strides):
    dy, w, dx = inputs_of(sample("sample_accumulate")).values()
    words = rf"dx is written in place, and elements of it share memory \(strides \[{strides[0]}, {strides[1]}\]\)"
    with pytest.warns(FallbackWarning, match="dx is not contiguous"), pytest.raises(InputError, match=words):
        op("sample_accumulate")._runner(*map(on_gpu, (dy, w, dx.as_strided((5, 24), strides))))


@pytest.mark.parametrize("strides", [(24, 1), (1, 5), (48, 2), (1, 7), (25, 1)])
def test_writing_in_place_into_a_view_without_shared_memory_works(sample, strides):
    dy, w, _ = inputs_of(sample("sample_accumulate")).values()
    dx = torch.zeros(500, dtype=torch.bfloat16).as_strided((5, 24), strides)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        load(sample("sample_accumulate"))(dy, w, dx)
    torch.testing.assert_close(dx, dy @ w)


SAME_VALUES = {"check_dtype": False, "check_stride": False}
CHANGES = {
    "another dtype": lambda t: t.double() if t.is_floating_point() else t.float(),
    "whole numbers": lambda t: t.int(),
    "no numbers": lambda t: t.to(torch.complex64),
    "a dimension less": lambda t: t[0],
    "a row less": lambda t: t[:-1],
    "no rows": lambda t: t[:0],
    "turned around": lambda t: t.mT.contiguous().mT if t.dim() == 2 else t.repeat_interleave(2)[::2],
    "one row for all": lambda t: t[:1].expand(t.shape),
    "off by an element": off_by_one,
    "sparse": lambda t: t.to_sparse(),
    "elsewhere": lambda t: t.to("meta"),
    "no tensor": lambda t: t.tolist(),
    "far outside": lambda t: t * 2**20,
}


@pytest.mark.filterwarnings("ignore::codasmith.verified_kernels.FallbackWarning")
@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_operator_that_ships_answers_as_its_reference_does_or_in_one_sentence(name):
    """One input changed at a time."""
    task = shipped()[name]
    inputs, op, worked = draw(task, Workload(sizes=task.default_sizes(16))), load(name), set()
    for changed in inputs:
        for how, change in CHANGES.items():
            value = inputs[changed]
            bad = {**inputs, changed: change(value) if isinstance(value, torch.Tensor) else None}
            kept = {k: v.clone() if k in task.accumulates and torch.is_tensor(v) else v for k, v in bad.items()}
            try:
                found = op(**bad)
            except InputError as error:
                assert "\n" not in str(error) and str(error).startswith(name)
                continue
            worked.add(how)
            wanted = dict(zip(task.outputs, found if isinstance(found, tuple) else (found,), strict=True))
            for output, answer in task.reference(**kept).items():
                torch.testing.assert_close(
                    wanted[output], answer, rtol=2**-7, atol=2**-7, equal_nan=True, **SAME_VALUES
                )
            inputs.update({k: v.clone() for k, v in kept.items() if k in task.accumulates and k != changed})
    assert worked >= {"turned around", "off by an element"}


NEVER_TAKEN = ("another dtype", "a dimension less", "no rows", "turned around", "one row for all", "off by an element")


SHIPPED = [entry for entry in store.scan()[0] if entry.path.is_relative_to(store.SHIPPED)]


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda entry: entry.name)
def test_every_kernel_that_ships_takes_what_is_good_and_refuses_the_rest_in_one_sentence(entry):
    """By the rules of each compiled object; one input changed at a time."""
    task = shipped_task(entry.record.task)
    for evidence in entry.record.evidence:
        signature = evidence.objects[0].signature
        signature = whole(task, signature) if isinstance(task, ProgramTask) else signature
        good = draw(task, Workload(sizes=task.default_sizes(16), storage=evidence.storage))
        given = {n: on_gpu(v) for n, v in good.items()}
        assert REFUSE(signature, given) is None
        for name, value in good.items():
            bad = [on_gpu(CHANGES[how](value)) for how in NEVER_TAKEN] if isinstance(value, torch.Tensor) else []
            for other in (*bad, None, "1", *([value] if bad else [])):  # the last: where it was, on the CPU
                reason = REFUSE(signature, {**given, name: other})
                assert reason and "\n" not in reason


@pytest.mark.parametrize("shared", ["dy", "w"])
def test_writing_in_place_over_what_is_read_goes_to_the_reference(op, sample, fake_kernel, shared):
    generator = torch.Generator().manual_seed(0)
    memory = torch.randn(24 * 24 + 16 * 24, generator=generator).bfloat16()
    dy, w = (torch.randn(s, generator=generator).bfloat16() for s in ((24, 16), (16, 24)))
    dx = memory[: 24 * 24].view(24, 24)
    overlapping = memory[24 * 24 - 1 : 24 * 24 - 1 + 384]  # one element is shared
    given = {"dy": dy, "w": w} | {shared: overlapping.view(dy.shape if shared == "dy" else w.shape)}
    wanted = dx + given["dy"] @ given["w"]
    accumulate = op("sample_accumulate", refuse=lambda signature, inputs: None)
    with pytest.warns(FallbackWarning, match=f"dx, which is written in place, shares memory with {shared}; give it"):
        _, result = accumulate(given["dy"], given["w"], dx)
    assert fake_kernel == [] and result is dx and torch.equal(dx, wanted)
    apart = memory[24 * 24 :].view(given[shared].shape)  # right behind it: nothing is shared
    accumulate(**{"dy": dy, "w": w, "dx": dx} | {shared: apart})
    assert len(fake_kernel) == 1
