import json

import pytest
from codasmith.agent.errors import UserMistake
from codasmith.evals.evalset import PUBLIC, load_set, read_set, set_names
from codasmith.evals.pin import pin
from codasmith.tasks import shipped


def test_public_set_pins_tasks_of_the_catalogue_at_their_digests_and_levels(public):
    assert set(public.tasks) <= set(shipped()) and len(public.tasks) >= 48
    for entry in public.spec.tasks:
        task = public.tasks[entry.name]
        assert (entry.digest, entry.level) == (task.digest, task.level)
        assert entry.family in {"pointwise", "gated", "rotary", "loss", "statistics", "backward", "layer"}
    assert public.spec.split == "public" and set_names() == [PUBLIC]


def test_published_solutions_name_what_quack_has(public):
    from importlib.util import find_spec
    from pathlib import Path

    root = Path(find_spec("quack").origin).parent.parent
    for entry in public.spec.tasks:
        if entry.known:
            module, _, name = entry.known.where.rpartition(".")
            text = (root / f"{module.replace('.', '/')}.py").read_text()
            assert f"def {name}(" in text, entry.name


def moved(tmp_path, **changes):
    spec = read_set()[0].model_dump(mode="json")
    spec["tasks"][0].update(changes)
    file = tmp_path / "set.json"
    file.write_text(json.dumps(spec))
    return file


def test_a_task_whose_digest_moved_is_one_sentence(tmp_path):
    first = read_set()[0].tasks[0].name
    with pytest.raises(UserMistake, match=rf"the task '{first}' has changed since .* restore the task") as caught:
        load_set(moved(tmp_path, digest="0" * 64))
    assert "\n" not in str(caught.value)


def test_a_task_that_is_gone_is_one_sentence(tmp_path):
    with pytest.raises(UserMistake, match="names the task 'gone', which the catalogue does not have"):
        load_set(moved(tmp_path, name="gone"))


def test_a_damaged_or_unknown_set_is_one_sentence(tmp_path):
    with pytest.raises(UserMistake, match=r"is not an eval set: tasks\.0\.level"):
        load_set(moved(tmp_path, level="high"))
    with pytest.raises(UserMistake, match="no eval set 'nothing'; name one"):
        load_set("nothing")


def test_digest_of_a_set_follows_its_tasks(tmp_path):
    before = read_set()[0]
    assert read_set(moved(tmp_path, digest="0" * 64))[0].digest != before.digest
    assert read_set(moved(tmp_path, family="other"))[0].digest == before.digest


def test_pinning_again_changes_nothing_and_asks_for_families_of_new_tasks(tmp_path, monkeypatch):
    file = tmp_path / "again.json"
    spec = read_set()[0]
    file.write_text(spec.model_dump_json())
    new = sorted(set(shipped()) - {t.name for t in spec.tasks})
    assert pin(file) == new
    again = {t.name: t for t in read_set(file)[0].tasks}
    assert [again[t.name] for t in spec.tasks] == list(spec.tasks)
    fewer = spec.model_copy(update={"tasks": spec.tasks[1:]})
    monkeypatch.setattr("codasmith.evals.pin.read_set", lambda _: (fewer, None))
    assert pin(file) == sorted([spec.tasks[0].name, *new])
