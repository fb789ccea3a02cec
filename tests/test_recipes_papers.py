"""Recipes of LEALLA and of multilingual distillation: values, smoke runs, mistakes."""

import pytest

from keras_msd.checks import InputError
from keras_msd.recipes import run
from keras_msd.recipes.load import load_recipe, recipe_names
from keras_msd.recipes.prepare import thin_deep_shape

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")

LEALLA = [name for name in recipe_names() if name.startswith("lealla_")]
OTHERS = [f"lealla_{it}" for it in "lab search features dimensions shapes".split()]
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


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("lealla_small", "assistant.source", "hf://a/b", "`.assistant.` is needed"),
        ("lealla_small", "student.start", "svd", '"svd"` is not for.*kind "thin_deep"'),
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


def test_a_teacher_without_a_tokenizer(tmp_path):
    words = {"teacher.source": "hashed-words", "teacher.dim": 8}
    changes = words | {"data.kind": "examples", "data.languages": ["de"]}
    with pytest.raises(InputError, match="a teacher whose tokenizer can be read"):
        run("lealla_small", tmp_path / "run", "paper", overrides=changes)
