"""What recipes load at lab scale, and which rows they have for the papers' tables."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_msd.recipes.load import describe, load_recipe, recipe_names
from keras_msd.recipes.resources import Run
from keras_msd.recipes.steps import steps_of
from keras_msd.recipes.train import stage_data

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


def test_targets_of_the_curves_are_those_of_the_figure():
    recipe = load_recipe("msd_convergence", "lab")
    shared = recipe.stages["contrastive_learning"]
    found = {
        recipe.recipe.rows[name].row: (
            student.stage("contrastive_learning", shared).target,
            student.stage("contrastive_learning", shared).scored,
        )
        for name, student in recipe.student.each().items()
    }
    targets = {"Ours": "soft", "Bool": "bool", "CE": "ce_hard", "w/o CL": "none"}
    assert found == {row: (target, 8) for row, target in targets.items()}


def test_students_of_table_6_that_are_not_taught_begin_before_stage_1(tmp_path):
    recipe = load_recipe("msd_stages", "lab", {"assistant.source": "a folder"})
    run = Run(recipe, SimpleNamespace(step=tmp_path.joinpath), (), tmp_path)
    run.__dict__["teacher"] = SimpleNamespace(dim=384, fingerprint="teacher")
    named = {"tokenizer": SimpleNamespace(vocabulary_size=40_000)}
    run.__dict__["named_assistant"] = SimpleNamespace(**named, fingerprint="it")
    steps = {it.name: it.arguments for it in steps_of(run)}
    begun = {
        name: inputs["assistant"]
        for name, inputs in steps.items()
        if name.startswith(("untrained", "teach_student"))
    }
    before, after = "assistant_start", "teach_assistant"
    assert begun == {
        "untrained": after, "untrained_stage12": after, "untrained_stage123": after,
        "teach_student": after, "teach_student_stage123": after,
        "untrained_single": before, "untrained_longer": before,
        "untrained_prekd": before, "teach_student_prekd": before,
    }  # fmt: skip
    assert steps[after]["start"] == before


def test_amounts_of_pairs_are_the_papers_at_equal_updates():
    recipe = load_recipe("xkd_amounts", "lab")
    shared = recipe.stages["contrastive_learning"]
    found = {}
    for name, student in recipe.student.each().items():
        (stage,) = recipe.stages_of(student).values()
        found[name] = stage.pairs_per_language or recipe.data.pairs_per_language
        assert stage.model_copy(update={"pairs_per_language": None}) == shared
        assert (student.layers, student.unit_layers) == ("untrained", 12)
    assert found == {"student": 25_000, "student_p5k": 5000, "student_p1k": 1000}
    assert shared.target == "none"


SCALES = [(name, scale) for name in recipe_names() for scale in describe(name).scales]


@pytest.mark.parametrize(("name", "scale"), SCALES)
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
