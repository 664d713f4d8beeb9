"""The training benchmark on a CPU: every variant learns the same, and files of several runs join."""

import argparse
import json
import sys
import warnings
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.filterwarnings("ignore:.*runs its unfused reference")


@pytest.fixture(scope="module")
def scripts():
    sys.path.insert(0, str(BENCHMARKS))
    import train
    import variants

    yield train, variants
    sys.path.remove(str(BENCHMARKS))
    for name in ("train", "trained", "variants", "decoder"):
        sys.modules.pop(name, None)


def graded(train, variants, name, **how):
    """The loss and the gradients of tied names, of a tiny model made from one seed."""
    torch.manual_seed(0)
    model = train.Decoder(*train.TINY).to(torch.bfloat16)
    step = variants.VARIANTS[name](model, **how)
    tokens = torch.randint(0, 256, (2, 33), generator=torch.Generator().manual_seed(1))
    loss = step(tokens[:, :-1], tokens[:, 1:].contiguous())
    loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())
    return loss.item(), {name: weight.grad for name, weight in model.named_parameters()}


def test_the_patched_model_under_compile_is_the_patched_model(scripts):
    eager, _ = graded(*scripts, "eager")
    loss, grads = graded(*scripts, "ours")
    assert loss == pytest.approx(eager, rel=1e-2)
    compiled, theirs = graded(*scripts, "ours-compiled", backend="aot_eager")
    assert compiled == pytest.approx(loss, rel=1e-3) and theirs.keys() == grads.keys()
    for name, grad in grads.items():
        torch.testing.assert_close(theirs[name], grad, rtol=2e-2, atol=2e-2 * grad.abs().max().item())


def test_a_variant_trains_and_is_measured(scripts):
    train, _ = scripts
    options = argparse.Namespace(device="cpu", configuration=train.TINY, steps=4, batch=2, length=32, rate=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = train.train("ours", 0, train.corpus()[:10000], options)
    assert len(row["losses"]) == 4 and row["losses"][-1] < row["losses"][0] and row["tokens_per_second"] > 0


def test_files_of_several_processes_join(scripts, tmp_path):
    train, _ = scripts
    common = {"steps": 2, "batch": 1, "length": 4, "configuration": "x", "parameters": 7, "absent": {}}

    def file(name, variant, seed, losses, **changes):
        row = {"losses": losses, "tokens_per_second": 10.0 * (seed + 1)}
        path = tmp_path / f"{name}.json"
        told = {"fallbacks": [name], "kernels": {"gate": [f"kernel {seed}"]}}
        path.write_text(json.dumps({**common, "runs": {variant: {str(seed): row}}, **told, **changes}))
        return path

    files = [file("a", "ours", 0, [3.0, 2.0]), file("b", "eager", 0, [3.0, 2.5]), file("c", "ours", 1, [4.0, 1.0])]
    whole = train.merged(files)
    assert list(whole["runs"]) == ["eager", "ours"] and list(whole["runs"]["ours"]) == ["0", "1"]
    assert whole["fallbacks"] == ["a", "b", "c"] and whole["kernels"] == {"gate": ["kernel 0", "kernel 1"]}
    assert whole["summary"]["ours"] == {"tokens_per_second": 15, "final_loss": 2.5, "spread": 0.0}
    with pytest.raises(SystemExit, match=r"d\.json has other steps than"):
        train.merged([files[0], file("d", "ours", 0, [1.0], steps=3)])


def test_what_a_run_wrote_is_kept_whole_and_anything_else_is_one_sentence(scripts, tmp_path):
    train, _ = scripts
    file = tmp_path / "runs.json"
    for steps in (1, 2):
        train.kept(file, {"steps": steps, "runs": {}})
    assert train.read(file) == {"steps": 2, "runs": {}} and list(tmp_path.iterdir()) == [file]
    for text, why in (("{", "cannot be read as what a run wrote"), ("[]", "holds no run")):
        file.write_text(text)
        with pytest.raises(SystemExit, match=why):
            train.merged([file])
    with pytest.raises(SystemExit, match="name a file of --out"):
        train.read(tmp_path / "nowhere.json")
