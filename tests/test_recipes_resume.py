"""A run's folder: one process at a time, and what must be as when it began."""

import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest

from keras_msd.checks import InputError
from keras_msd.files import write_json
from keras_msd.recipes.runs.checks import PLAN, facts
from keras_msd.recipes.runs.environment import (
    ROOT,
    TABLES,
    code_digest,
    environment,
    module_files,
    modules_behind,
)
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.runs.run_folder import RunFolder, locked
from keras_msd.recipes.runs.runner import run_scores
from keras_msd.recipes.schema.loading import load_recipe

HOLD = """
import sys, time
from pathlib import Path
from keras_msd.recipes.runs.run_folder import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
FACTS = {"code": "abc", "libraries": {"keras": "3.1", "jax": None}, "files": {}}


def test_a_lock_is_held_until_its_process_is_killed(tmp_path):
    folder = tmp_path / "new" / "run"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE
    ) as other:
        try:
            assert other.stdout.readline().strip() == b"held"
            with pytest.raises(InputError, match="another process works on"):
                with locked(folder):
                    pass
        finally:
            other.kill()
    for _ in range(2):
        with locked(folder):
            pass


@pytest.fixture
def begun(tmp_path):
    """Return a function that claims one folder for a recipe, a step of it done."""

    def claim(overrides=(), facts=FACTS):
        recipe = load_recipe("msd_lab", "smoke", dict(overrides))
        RunFolder(tmp_path, recipe).claim(facts)
        write_json(tmp_path / "stages/pairs/done.json", {"result": {}})
        return (tmp_path / "recipe.toml").read_text(encoding="utf-8")

    claim()
    return claim


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"code": "abd"}, ["code (abc then, abd now)"]),
        ({"libraries": {"keras": "3.2"}}, ["libraries.keras (3.1 then, 3.2 now)"]),
        ({"files": {"sts/a": "1"}}, ["files.sts/a (None then, 1 now)"]),
        ({"backend": "jax"}, ["backend (None then, jax now)", "another `out_dir`"]),
    ],
)
def test_facts_that_changed_are_named(begun, change, parts):
    with pytest.raises(InputError) as error:
        begun(facts=FACTS | change)
    for part in parts:
        assert part in str(error.value)
    begun()  # those of then are welcome


def test_a_run_of_an_older_version_does_not_go_on(begun, tmp_path):
    (tmp_path / "began.json").unlink()
    with pytest.raises(InputError, match="code.*None then, abc now"):
        begun()


def test_labels_may_change_and_the_rest_may_not(begun):
    labels = {"recipe.title": "New", "recipe.cost": "2 hours", "budget.stages": 9.0}
    labels |= {"recipe.expected": {"kept_student": 1.0}}
    row = {"table": "9", "row": "x", "printed_as": "none"}
    labels |= {"recipe.rows": {"student": row}}
    text = begun(labels)
    assert 'title = "New"' in text and 'table = "9"' in text
    for key, value in (("recipe.seed", 1), ("student.unit_layers", 1)):
        with pytest.raises(
            InputError, match=rf"settings.*{key} \(\d then, {value} now\)"
        ):
            begun(labels | {key: value})
    assert 'title = "New"' in begun(labels)


def test_facts_of_a_run(tmp_path):
    recipe = load_recipe("xkd_lab", "smoke")
    ours = Run(recipe, RunFolder(tmp_path, recipe), (), tmp_path)
    ours_alone = {"code": code_digest(PLAN), "computes_in": "float32", "files": {}}
    assert facts(ours) == environment() | ours_alone
    assert {"code", "backend", "libraries"} <= facts(ours).keys()


def test_what_is_installed_and_not_used_is_no_fact(monkeypatch):
    """A run goes on under TensorFlow where JAX was installed since."""
    before, installed = environment.__wrapped__(), [*metadata.distributions()]
    new = SimpleNamespace(name="jax", version="99.0")
    monkeypatch.setattr(metadata, "distributions", lambda: [*installed, new])
    assert environment.__wrapped__() == before
    new.name = "keras"
    assert environment.__wrapped__()["libraries"]["keras"] == "99.0"


def test_tables_are_code():
    """A table of records leads where its paths lead; others count in their room."""
    assert "keras_msd.evaluate.translations" in modules_behind(
        "keras_msd.evaluate.sets"
    )
    reached = {module_files()[name].parent for name in modules_behind(PLAN)}
    tables = {path for path in ROOT.rglob("*") if path.suffix in TABLES}
    rooms = {path.parent.name for path in tables if path.parent in reached}
    assert {"made", "evaluate", "tokenizers"} <= rooms
    assert not {"report", "configs"} & rooms


def test_an_assistant_that_scores_nothing():
    step = {"part": "evaluation"}
    recipe = load_recipe("msd_lab", "smoke")
    rows = [("assistant", {"kind": "assistant"}), ("small", {"student": "small"})]
    from keras_msd.recipes.steps.plan import Step

    steps = [
        Step(name, step["part"], dict, {"kind": "stage"} | row) for name, row in rows
    ]

    def measured(whole):
        found = {"assistant": whole, "small": 3.0}
        records = {n: {"result": {"cross_lingual": v}} for n, v in found.items()}
        return run_scores(recipe, steps, records)["measured"]

    assert measured(0.0) == {}
    assert measured(4.0) == {"kept_small": 75.0}
