"""Stages on labelled pairs in recipes: the rows of the paper, files, a run."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from small_recipe import write_rows

from keras_msd.checks import InputError
from keras_msd.load import load_encoder
from keras_msd.recipes import load_recipe, run
from keras_msd.recipes.labelled import InferenceRows, ScoredRows
from keras_msd.recipes.load import recipe_from

NAMES = ("msd_mbert_nli_stsb", "msd_xlmr_nli_stsb", "msd_sbert_nli_stsb")
QUICK = {
    "assistant.num_layers": 1,
    "data.max_length": 16,
    "data.pairs_per_language": 60,
    "data.sts_train_rows": 40,
    "data.nli_rows": 40,
    "stages.classify_inference.steps": 4,
    "stages.classify_inference.batch_size": 8,
    "stages.regress_similarity.steps": 2,
    "stages.regress_similarity.evaluate_every": 1,
}


@pytest.mark.parametrize("name", NAMES)
def test_paper_scale_is_as_reimers_and_gurevych(name):
    recipe = load_recipe(name, "paper")
    ran = {stage: it for stage, it in recipe.stages.items() if not it.skip}
    assert list(ran) == ["classify_inference", "regress_similarity"]
    for stage, epochs in zip(ran.values(), (1, 4), strict=True):
        assert (stage.epochs, stage.steps) == (epochs, None)
        assert (stage.batch_size, stage.learning_rate) == (16, 2e-5)
        assert (stage.warmup, stage.schedule) == (0.1, "linear")
        assert stage.languages == ("en",)
    assert ran["classify_inference"].sets == ("snli", "multinli")
    assert ran["regress_similarity"].sets == {"stsb": "over_5"}
    assert recipe.assistant.source.startswith("hf://")


def test_a_later_stage_is_said_where_it_is():
    without = load_recipe("msd_sizes", "lab").settings()
    assert without["stages"]["classify_inference"]["skip"]
    recipe = load_recipe(NAMES[0], "paper")
    said = recipe.settings()
    assert said["stages"]["classify_inference"]["sets"] == ["snli", "multinli"]
    assert recipe_from(said, "settings") == recipe
    alone = {"student.stages.classify_inference": {"skip": False}}
    shared = {"stages.classify_inference": {"skip": True, "epochs": 1, "sets": ["x"]}}
    changed = load_recipe("msd_sizes", "lab", alone | shared).settings()
    assert changed["stages"]["classify_inference"]["sets"] == ["x"]


@pytest.mark.slow
def test_a_run(tmp_path):
    folder = tmp_path / "run"
    done = run(NAMES[0], folder, "smoke", None, tmp_path / "store", QUICK)
    names = [row["name"] for row in done["rows"]]
    before = ["assistant before NLI", "assistant before STS"]
    assert names[-3:] == [*before, "assistant"]
    step = folder / "stages/classify_inference"
    result = json.loads((step / "done.json").read_text())["result"]
    assert (result["steps"], result["rows"], result["rows_skipped"]) == (4, 32, 0)
    history = json.loads((step / "history.json").read_text())
    assert history["terms"].keys() == {"cross_entropy", "loss"}
    before = load_encoder(folder / "stages/assistant_start/encoder").weights()
    after = load_encoder(step / "encoder").weights()
    assert before.keys() == after.keys()
    assert any((before[path] != after[path]).any() for path in before)
    last = load_encoder(folder / "stages/regress_similarity/encoder").weights()
    for path, value in load_encoder(folder / "assistant").weights().items():
        np.testing.assert_array_equal(value, last[path])
    page = (folder / "report.html").read_text()
    assert "classify inference" in page and "cross entropy" in page


HEAD = ("premise", "hypothesis", "label")
ROW = ("A dog.", "An animal.", "entailment")


def checked(place, name, **changes):
    """Return the files of a stage on labelled pairs, or raise what is wrong."""
    stage = {"skip": False, "steps": 1, "batch_size": 2, "languages": ["en"]} | changes
    overrides = {f"stages.{name}.{key}": it for key, it in stage.items()}
    recipe = load_recipe("msd_minilm_ru3", "smoke", overrides)
    given = SimpleNamespace(recipe=recipe, data_dir=place)
    kind = ScoredRows if name == "regress_similarity" else InferenceRows
    rows = kind(given, name, recipe.stages[name])
    rows.check_files()
    return [path.name for path in rows.files()]


def test_files_are_found_and_checked_before_work(tmp_path):
    name = "classify_inference"
    write_rows(tmp_path / "nli/a.train.en.tsv.gz", [HEAD, ROW, ROW])
    (tmp_path / "nli/b.train.de.jsonl").write_text(
        '{"sentence1": "Ein Hund.", "sentence2": "Regen.", "gold_label": "neutral"}\n'
    )
    found = checked(tmp_path, name, sets=["a", "b"], languages=["en", "de"])
    assert found == ["a.train.en.tsv.gz", "b.train.de.jsonl"]
    for changes, message in (
        ({"sets": ["c"]}, "none of c.*nli/<set>.train.<xx>` with .tsv.gz or .js"),
        ({"languages": ["en", "fr"]}, "none of fr. Looked for"),
        ({"batch_size": 3}, "classify_inference.batch_size.*2 rows in.*a.train"),
        ({"warmup_steps": 1}, "classify_inference.warmup_steps.*1 steps"),
        ({"sets": []}, "`sets` needs a set, as in"),
    ):
        with pytest.raises(InputError, match=message):
            checked(tmp_path, name, **{"sets": ["a"]} | changes)


def test_so_are_those_of_the_regression(tmp_path):
    for split, gold in (("train", 0.5), ("dev", 3)):
        rows = [(gold, "x", "y"), (4, "v", "w")]
        write_rows(tmp_path / f"sts/a.{split}.en.tsv.gz", rows)
    for changes, message in (
        ({"sets": {"a": "from_1"}}, 'a.train.en.*"from_1".*another of over_5'),
        ({"sets": {"b": "over_5"}}, "none of b.*sts/<set>.train.<xx>` with .tsv.gz"),
        ({"dev_set": "b"}, "b.dev.en.tsv.gz.*does not exist"),
    ):
        given = {"sets": {"a": "over_5"}, "dev_set": "a"} | changes
        with pytest.raises(InputError, match=message):
            checked(tmp_path, "regress_similarity", **given)
