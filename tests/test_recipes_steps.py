"""Which steps a recipe has, of which students, with which settings."""

import inspect
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from keras_msd.recipes.load import load_recipe
from keras_msd.recipes.resources import Run
from keras_msd.recipes.runner import steps_of
from keras_msd.recipes.settings import StartsSettings
from keras_msd.recipes.train import _guides, stage_data
from keras_msd.stages import STAGES
from keras_msd.stages.settings import TrainingSettings
from keras_msd.starts.closed_form import BothSides, fit_ridge
from keras_msd.testing import tiny_encoder
from keras_msd.training.optimizer import make_optimizer


def a_run(tmp_path, *recipe):
    """Return a run of a recipe that has done nothing yet."""
    folder = SimpleNamespace(step=tmp_path.joinpath)
    return Run(load_recipe(*recipe), folder, (), tmp_path)


def arguments_of(run):
    """Return the arguments of a run's steps by name, in their order."""
    return {step.name: step.arguments for step in steps_of(run)}


def test_every_student_has_its_steps(tmp_path):
    changes = {"starts.widths": [16], "evaluate.intermediate": "full"}
    run = a_run(tmp_path, "msd_tradeoffs", "smoke", changes)
    names = [step.name for step in steps_of(run)]
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


def test_a_run_makes_no_vectors_that_only_terms_of_weight_0_compare(tmp_path):
    run = a_run(tmp_path, "mini12")
    settings = run.recipe.stages["teach_student"]
    kept = {"teacher": "teacher", "target_side": "target", "encoder": lambda _: "own"}
    made = SimpleNamespace(**kept, guides_of=run.guides_of, guide=str.upper)
    whole = {"whole": ("WHOLE", "source"), "whole_target": ("WHOLE", "target")}
    assert _guides(made, "teach_student", settings, "assistant") == whole
    weights = settings.weights | {"vectors": 0.0, "others": 1.0, "target_mse": 1.0}
    sides = {f"assistant_{it}": ("own", it) for it in ("source", "target")}
    changed = settings.with_values({"weights": weights})
    assert _guides(made, "teach_student", changed, "assistant") == sides


def test_layers_are_pruned_before_they_are_copied_and_the_guide_stays_whole(tmp_path):
    changes = {"student.start": "svd", "student.num_heads": 3}
    steps = arguments_of(a_run(tmp_path, "msd_long_thin12", "smoke", changes))
    whole = steps["pruned"].pop("assistant")
    assert steps["pruned"] == {"num_heads": 3, "intermediate_dim": 24, "count": 960}
    for name in ("untrained", "student_start"):
        assert steps[name]["assistant"] == "pruned"
    refitted = {"student": "student_start", "assistant": whole, "count": 20}
    assert steps["refitted"] == refitted
    assert steps["teach_student"]["assistant"] == whole != "pruned"


def test_measured_layers_run_once_and_are_pruned_and_refitted_as_they_are(tmp_path):
    changes = {"student.start": "svd", "student.unit_from": "measured"}
    steps = arguments_of(a_run(tmp_path, "msd_long_thin12", "smoke", changes))
    layers = steps["untrained"]["unit_layers"]
    whole = steps["teach_student"]["assistant"]
    assert steps["shallow"] == {"assistant": whole, "count": layers}
    assert steps["pruned"]["assistant"] == steps["refitted"]["assistant"] == "shallow"
    assert steps["untrained"]["assistant"] == steps["student_start"]["assistant"]
    assert steps["untrained"]["unit_from"] == "first"


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


SEVERAL = ["msd_ablations", "msd_convergence", "msd_layers", "msd_sizes", "msd_stages"]


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("scale", ["smoke", "lab", "paper"])
def test_rows_are_students_of_the_recipe(name, scale):
    recipe = load_recipe(name, scale)
    assert set(recipe.recipe.rows) == set(recipe.student.each())
    assert all(
        row.table in recipe.recipe.table or name == "msd_ablations"
        for row in recipe.recipe.rows.values()
    )


def updates(recipe):
    """Return the updates of each student, all stages together."""
    names = ("align_embedding", "teach_student", "contrastive_learning")
    found = {}
    for name, student in recipe.student.each().items():
        stages = [student.stage(n, recipe.stages[n]) for n in names]
        found[name] = sum(stage.steps for stage in stages if not stage.skip)
    return found


@pytest.mark.parametrize("name", ["msd_ablations", "msd_sizes", "msd_layers"])
def test_arms_are_fair(name):
    recipe = load_recipe(name, "lab")
    assert len(set(updates(recipe).values())) == 1
    assert {student.start for student in recipe.student.each().values()} == {
        "random" if name == "msd_layers" else "svd"
    }
    students = recipe.student.each().values()
    stages = [
        one.stage("teach_student", recipe.stages["teach_student"]) for one in students
    ]
    assert len({stage.batch_size for stage in stages}) == 1


def test_ablations_differ_in_what_they_name():
    recipe = load_recipe("msd_ablations", "paper")
    stage, each = recipe.stages["contrastive_learning"], recipe.student.each()
    found = {
        name: (
            student.repeats,
            student.stage("contrastive_learning", stage).target,
            student.stage("contrastive_learning", stage).contrastive_weight,
        )
        for name, student in each.items()
    }
    assert found == {
        "student": (None, "soft", 1.0),
        "student_nomcl": (None, "none", 1.0),
        "student_norec": (1, "soft", 1.0),
        "student_nomclnorec": (1, "none", 1.0),
        "student_bool": (None, "bool", 1.0),
        "student_ce": (None, "ce_soft", 64.0),
        "student_cehard": (None, "ce_hard", 0.01),
    }
    widths = load_recipe("msd_sizes", "paper").student.each().values()
    assert [(one.bottleneck_dim, one.unit_layers) for one in widths] == [
        (None, 3), (128, 3), (256, 3), (128, 6), (128, 12),
    ]  # fmt: skip
    layers = load_recipe("msd_layers", "paper")
    assert [one.unit_layers for one in layers.student.each().values()] == [
        int(row.row.split()[0]) for row in layers.recipe.rows.values()
    ]
    assert {one.repeats for one in layers.student.each().values()} == {1}


EXPERIMENTS = Path(__file__).parents[1] / "experiments"


@pytest.fixture
def ablations(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    import ablations

    return ablations


FROM_ASSISTANT = ["msd_ablations", "msd_sizes", "msd_convergence", "msd_layers"]


@pytest.mark.parametrize("name", [*FROM_ASSISTANT, "xkd_amounts"])
def test_recipes_begin_with_an_assistant_that_is_given(ablations, name, tmp_path):
    given = SimpleNamespace(scale="lab", assistant=tmp_path, teacher=None)
    recipe = load_recipe(name, "lab", ablations.changes_of(name, given))
    assert recipe.assistant.source == str(tmp_path)
    assert recipe.tokenizer_source == "assistant"
    assert recipe.evaluate.part == "report"
    alone = name in ("msd_layers", "xkd_amounts")  # X-KD is a stage of the student
    assert recipe.stages["teach_assistant"].skip == alone
    assert recipe.starts.closed_form
    assert recipe.starts.widths == (128,)


def test_students_of_table_6_that_are_not_taught_begin_before_stage_1(tmp_path):
    changes = {"stages.pretrain_assistant": {"skip": False, "steps": 2}}
    steps = arguments_of(a_run(tmp_path, "msd_stages", "smoke", changes))
    begun = {
        name: inputs["assistant"]
        for name, inputs in steps.items()
        if name.startswith(("untrained", "teach_student"))
    }
    before, after = "pretrain_assistant", "teach_assistant"
    assert begun == {
        "untrained": after, "untrained_stage12": after, "untrained_stage123": after,
        "teach_student": after, "teach_student_stage123": after,
        "untrained_single": before, "untrained_longer": before,
        "untrained_prekd": before, "teach_student_prekd": before,
    }  # fmt: skip
    assert steps[after]["start"] == before
    assert steps[before]["start"] == "assistant_start"


TRAINED = [  # on pairs, labelled rows, several students
    *(("lealla_lab", "lab"), ("xkd_lab", "lab"), ("msd_ablations", "lab")),
    *(("msd_mbert_nli_stsb", "paper"), ("msd_backbone", "backbone")),
]


@pytest.mark.parametrize(("name", "scale"), TRAINED)
def test_what_is_scored_trains_nothing_but_the_regression(name, scale, tmp_path):
    recipe = load_recipe(name, scale)
    data, codes = tmp_path / "data", recipe.data.languages
    pairs = [code if "-" in code else f"en-{code}" for code in codes]
    sets = [*getattr(recipe.stages["classify_inference"], "sets", ())]
    names = [f"sts/{it}.train.en.tsv.gz" for it in ("stsb", *sets)]
    names += [f"nli/{it}.train.en.tsv.gz" for it in sets]
    for folder in ("sts", "tatoeba", "parallel/dev", "parallel/train"):
        for corpus in (*recipe.data.corpora, "any"):
            names += [f"{folder}/{corpus}.{pair}.tsv" for pair in pairs]
    for file in names:
        (data / file).parent.mkdir(parents=True, exist_ok=True)
        (data / file).touch()
    run = Run(recipe, SimpleNamespace(step=lambda name: tmp_path), (data,), tmp_path)
    files = run.training_files()
    for stage, settings in recipe.stages_in_use():
        if stage != "regress_similarity":
            files += stage_data(run, stage, settings).files()
    assert {file.relative_to(data).parts[0] for file in files} <= {"parallel", "nli"}
