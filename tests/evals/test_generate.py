import pytest
import torch
from codasmith.agent.errors import UserMistake
from codasmith.evals import generate as module
from codasmith.evals.evalset import load_set
from codasmith.evals.generate import drafts, generate
from codasmith.gate.interpret import interpret_stage
from codasmith.gate.read import read_stage
from codasmith.primitives import Builder, to_source
from codasmith.tasks import load_task

FILES = ["held_out_5_000.py", "held_out_5_001.py", "held_out_5_002.py", "held_out_5_003.py", "set.json"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sets") / "five"
    generate(5, 4, None, path)
    return path


def test_files_are_ordinary_tasks_whose_own_graphs_pass_reader_and_interpreter(folder):
    assert sorted(p.name for p in folder.iterdir()) == FILES
    for made in drafts(5, 4):
        task = load_task(folder / f"{made.name}.py")
        result, graph = read_stage(task, to_source(made.graph, made.name), "closed")
        assert result.outcome == "passed" and graph.digest == made.graph.digest
        assert interpret_stage(task, graph).outcome == "passed"
        assert len(task.workloads()) == 3


def test_the_set_loads_and_says_how_it_was_made(folder):
    loaded = load_set(folder)
    assert loaded.spec.split == "held-out" and len(loaded.tasks) == 4
    assert loaded.spec.made_with == {"seed": 5, "count": 4, "difficulty": 0}
    assert [loaded.tasks[e.name].digest for e in loaded.spec.tasks] == [e.digest for e in loaded.spec.tasks]


def test_an_edited_task_file_no_longer_loads(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    target = tmp_path / "held_out_5_000.py"
    target.write_text(target.read_text().replace(".float()", ".float() * 2.0", 1))
    with pytest.raises(UserMistake, match="'held_out_5_000' has changed since"):
        load_set(tmp_path)


def test_the_same_seed_gives_the_same_files_and_another_gives_others(folder, tmp_path):
    generate(5, 4, None, tmp_path / "again")
    assert {f: (tmp_path / "again" / f).read_text() for f in FILES} == {f: (folder / f).read_text() for f in FILES}
    other = generate(6, 4, None, tmp_path / "other")
    assert other.digest != load_set(folder).spec.digest


def test_difficulty_bounds_the_level(tmp_path):
    spec = generate(2, 5, 1, tmp_path / "easy")
    assert {t.level for t in spec.tasks} == {1}


def test_what_cannot_be_meant_is_one_sentence(folder, tmp_path):
    with pytest.raises(UserMistake, match="is not empty; name a new one"):
        generate(5, 4, None, folder)
    for count, difficulty, said in (
        (0, None, "--n 0 asks for no task"),
        (3, 9, "--difficulty 9 is not known; give 1 to 4"),
    ):
        with pytest.raises(UserMistake, match=said):
            generate(5, count, difficulty, tmp_path / "none")


def test_a_public_task_is_never_drawn_again(monkeypatch):
    """The composer made to draw `linear_silu` every time: every draft is refused for what it is."""
    real = module.compose

    def silu_again(rng, difficulty):
        draft = real(rng, 1)
        builder = Builder()
        graph = builder.finish({"y": builder.add("silu", (builder.acc(),))})
        product = {"x": 'Tensor("M K")', "w": 'Tensor("N K", scale="K**-0.5")'}
        return module.Draft(graph, product, {"y": 'Tensor("M N")'}, "x @ w.T", "element", False, draft.width)

    monkeypatch.setattr(module, "compose", silu_again)
    reasons = []
    with pytest.raises(UserMistake, match="no sound task number 0 was found"):
        list(drafts(1, 1, rejected=reasons.append))
    assert set(reasons) == {"the same expression as a known task"}


def test_generated_references_are_tight(folder):
    """Everything after the product is float32, so the unfused path loses little and the tolerance stays small."""
    from codasmith.tasks import draw, oracle, unfused

    for name in FILES[:4]:
        task = load_task(folder / name)
        inputs = draw(task, task.correctness_workloads()[0])
        exact, plain = oracle(task, inputs), unfused(task, inputs)
        for key, value in exact.items():
            assert (plain[key].double() - value).abs().max() < 0.02 * value.abs().max()
            assert torch.isfinite(value).all()
