import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from keras_msd.recipes.load import load_recipe
from keras_msd.recipes.resources import Run
from keras_msd.recipes.settings import StartsSettings
from keras_msd.recipes.steps import steps_of
from keras_msd.stages import STAGES
from keras_msd.stages.settings import TrainingSettings
from keras_msd.starts.ridge import BothSides, fit_ridge
from keras_msd.teachers.vectors import HashedWords
from keras_msd.testing import tiny_encoder
from keras_msd.training.optimizer import make_optimizer


def test_every_student_has_its_steps(tmp_path):
    changes = {"starts.widths": [16], "evaluate.intermediate": "full"}
    recipe = load_recipe("msd_tradeoffs", "smoke", changes)
    folder = SimpleNamespace(step=tmp_path.joinpath)
    names = [step.name for step in steps_of(Run(recipe, folder, (), tmp_path))]
    assert len(set(names)) == len(names)
    for stage in ("untrained", "align_embedding", "contrastive_learning"):
        assert {stage, f"{stage}_cut80", f"score_{stage}_cut80"} <= set(names)
    widths = ["", "_b16", "_b12", "_b4"]
    assert {f"closed_form{width}" for width in widths} <= set(names)
    assert {"example_data", "keep_student", "keep_student_cut80"} <= set(names)


def test_goals_come_twice():
    rows = np.arange(12.0).reshape(6, 2)
    goals = BothSides(lambda start, stop: rows[start:stop], 6, 2)
    twice = np.concatenate([rows, rows])
    assert goals.shape == twice.shape and len(goals) == 12
    for part in (slice(0, 4), slice(4, 9), slice(6, 7), slice(8, 20)):
        np.testing.assert_array_equal(goals[part], twice[part])


def test_hashed_words_are_graded():
    teacher = HashedWords(64)
    a, b, c, empty = teacher.encode(["The cat, runs", "runs the CAT", "the dog", ""])
    np.testing.assert_allclose(a, b, atol=1e-6)
    assert 0.1 < a @ c < 0.9 and not empty.any()
    assert np.linalg.norm(a) == pytest.approx(1)
    assert HashedWords(64).fingerprint != HashedWords(32).fingerprint


def test_the_raw_assistant_is_that_before_stage_1(tmp_path):
    changes = {"stages.pretrain_assistant": {"skip": False, "steps": 2}}
    recipe = load_recipe("msd_stages", "smoke", changes)
    folder = SimpleNamespace(step=tmp_path.joinpath)
    steps = {step.name: step for step in steps_of(Run(recipe, folder, (), tmp_path))}

    def of(name, key="assistant"):
        return steps[name].arguments[key]

    names = list(steps)
    assert names.index("pretrain_assistant") < names.index("teach_assistant")
    assert of("pretrain_assistant", "start") == "assistant_start"
    assert of("teach_assistant", "start") == "pretrain_assistant"
    assert of("teach_student") == of("untrained") == "teach_assistant"
    assert of("teach_student_prekd") == of("untrained_prekd") == "pretrain_assistant"


def test_layers_are_pruned_before_they_are_copied_and_the_guide_stays_whole(tmp_path):
    recipe = load_recipe("msd_long_thin12", "smoke", {"student.start": "svd"})
    folder = SimpleNamespace(step=tmp_path.joinpath)
    steps = {step.name: step for step in steps_of(Run(recipe, folder, (), tmp_path))}
    pruned = steps["pruned"].arguments
    whole = pruned.pop("assistant")
    assert pruned == {"num_heads": 3, "intermediate_dim": 24, "count": 960}
    for name in ("untrained", "student_start"):
        assert steps[name].arguments["assistant"] == "pruned"
    assert steps["teach_student"].arguments["assistant"] == whole != "pruned"


def defaults(*functions):
    """Return the defaults of arguments by name; those of the first function count."""
    found = {}
    for function in reversed(functions):
        arguments = inspect.signature(function).parameters.values()
        found |= {it.name: it.default for it in arguments if it.default is not it.empty}
    return found


@pytest.mark.parametrize("name", STAGES)
def test_a_setting_of_a_stage_has_the_default_of_its_class(name):
    spec = STAGES[name]
    classes = type(spec.make(tiny_encoder())).__mro__
    settings = spec.settings(skip=True).arguments()
    known = defaults(*(it.__init__ for it in classes if "__init__" in vars(it)))
    assert {key: known[key] for key in settings} == settings


@pytest.mark.parametrize(
    ("settings", "functions"),
    [
        (TrainingSettings(skip=True), [make_optimizer]),
        (StartsSettings(), [fit_ridge]),
    ],
)
def test_a_setting_has_the_default_of_the_argument(settings, functions):
    known = defaults(*functions)
    own = settings.model_dump(exclude_none=True)
    shared = known.keys() & own.keys()
    assert len(shared) > 0
    assert {key: known[key] for key in shared} == {key: own[key] for key in shared}
