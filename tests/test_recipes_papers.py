"""Recipes of LEALLA and of multilingual distillation: values, smoke runs, mistakes."""

from types import SimpleNamespace

import pytest
from small_recipe import write_rows

from keras_msd.checks import InputError
from keras_msd.recipes import run
from keras_msd.recipes.labelled import ScoredRows
from keras_msd.recipes.load import load_recipe, recipe_names
from keras_msd.recipes.prepare import thin_deep_shape

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")

LEALLA = [name for name in recipe_names() if name.startswith("lealla_")]
OTHERS = ("lealla_lab", "lealla_search", "lealla_features", "lealla_dimensions")
TRAINED = [name for name in LEALLA if name not in OTHERS]
VOCABULARY = 501_153
# Of every update as few as can be: the runs below are about steps, not about scores.
QUICK = {"stages.teach_thin_deep.steps": 3, "data.pairs_per_language": 40}


@pytest.mark.parametrize("name", TRAINED)
def test_paper_scale_has_the_papers_values(name):
    ours = load_recipe(name, "paper")
    stage, shape = ours.stages["teach_thin_deep"], thin_deep_shape(ours.student)
    width, inner, depth = (
        shape[key] for key in ("hidden_dim", "intermediate_dim", "num_layers")
    )
    layer = 4 * (width**2 + width) + 2 * width * inner + inner + width + 4 * width
    total = (VOCABULARY + 512 + 2 + 2) * width + depth * layer + width**2 + width
    assert ours.recipe.cost.startswith(f"{total:,} parameters")
    assert stage.batch_size == 8192 and stage.chunk_size == 512
    assert stage.steps == (100_000 if width < 256 else 200_000)
    assert stage.learning_rate == (5e-4 if width < 384 else 1e-3)
    assert (stage.margin, stage.scale, stage.temperature) == (0.3, 100.0, 100.0)
    tokens = name.split("_")[2:]
    losses = tokens or (["ams"] if "row" in name else ["ams", "fd", "ld"])
    beta = 1e4 if name.startswith("lealla_large") else 1e3
    assert stage.ams_weight == float("ams" in losses)
    assert stage.feature_weight == beta * bool({"fd", "df", "syn"} & {*losses})
    assert stage.logit_weight == 1e-2 * ("ld" in losses)
    kinds = {"df": "distillation_first", "syn": "synchronized"}
    assert stage.feature == kinds.get(losses[-1], "fd")
    assert ours.teacher.multilingual and ours.tokenizer_source == "teacher"


def smoke(name, folder, changes=None, **options):
    return run(name, folder / name, "smoke", None, folder / "store", changes, **options)


@pytest.fixture
def data(tmp_path):
    for split, gold in (("train", 0.5), ("dev", 3)):
        rows = [(gold, "x", "y"), (4, "v", "w")]
        write_rows(tmp_path / f"sts/a.{split}.en.tsv.gz", rows)
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"sets": {"a": "from_1"}}, ["a.train.en", '"from_1"', "another of over_5"]),
        (
            {"sets": {"b": "over_5"}},
            ["none of b", "sts/<set>.train.<xx>` with .tsv.gz"],
        ),
        ({"dev_set": "b"}, ["b.dev.en.tsv.gz", "does not exist"]),
    ],
)
def test_files_of_the_regression_are_checked_before_work(data, changes, parts):
    regress = {"steps": 1, "sets": {"a": "over_5"}, "dev_set": "a", "languages": ["en"]}
    overrides = {f"stages.regress_similarity.{k}": v for k, v in regress.items()}
    overrides |= {f"stages.regress_similarity.{k}": v for k, v in changes.items()}
    recipe = load_recipe("msd_minilm_ru3", "smoke", overrides)
    with pytest.raises(InputError) as error:
        run = SimpleNamespace(recipe=recipe, data_dir=data)
        name = "regress_similarity"
        ScoredRows(run, name, recipe.stages[name]).check_files()
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("lealla_small", "assistant.source", "hf://a/b", "`.assistant.` is needed"),
        ("lealla_small", "stages.teach_thin_deep.skip", True, "is the stage of"),
        ("lealla_small", "stages.teach_student.steps", 3, "received teach_student"),
        ("lealla_small", "stages.regress_similarity", {"steps": 1}, "needs a set"),
        ("msd_minilm_ru3", "stages.teach_thin_deep.steps", 3, "and of no others"),
        ("msd_minilm_ru3", "assistant.source", "none", "`.assistant.` is needed"),
    ],
)
def test_recipes_that_do_not_fit_together(name, key, value, message):
    with pytest.raises(InputError, match=message):
        load_recipe(name, "smoke", {key: value})


NO_TOKENIZER = """
extends = "_shared_lealla"
[recipe]
name = "mine"
title = "Mine"
scales = ["paper"]
default_scale = "paper"
[teacher]
source = "hashed-words"
dim = 8
[data]
kind = "examples"
languages = ["de"]
"""


def test_a_teacher_without_a_tokenizer(tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(NO_TOKENIZER)
    with pytest.raises(InputError, match="a teacher whose tokenizer can be read"):
        run(recipe, tmp_path / "run")


def test_warm_up_must_end_before_the_stage_does(tmp_path):
    changes = QUICK | {"stages.teach_thin_deep.warmup_steps": 3}
    with pytest.raises(InputError, match="warmup_steps=3, 3 steps"):
        smoke("lealla_small_fd", tmp_path, changes)
