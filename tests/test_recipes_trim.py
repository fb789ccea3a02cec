"""A run whose finished models get smaller vocabularies."""

from types import SimpleNamespace

import pytest

from keras_msd.checks import InputError
from keras_msd.evaluate import score_set
from keras_msd.io.files import read_json
from keras_msd.load import load_encoder
from keras_msd.recipes import load_recipe, run
from keras_msd.recipes.resources import Run
from keras_msd.recipes.steps import steps_of

TINY = {
    "assistant.num_layers": 1,
    "data.pairs_per_language": 80,
    "evaluate.artefacts": False,
    "starts.closed_form": False,
    "student.kind": "none",
    "stages.teach_assistant.steps": 3,
    "trim.used": {},
    "trim.half": {"keep": 0.5, "min_count": 2},
}


def test_scores_and_sizes_before_and_after(tmp_path):
    folder = tmp_path / "run"
    done = run("demo", folder, "smoke", None, tmp_path / "store", TINY)
    rows = {row["name"]: row for row in done["rows"]}
    names = [f"assistant, trimmed, {it}" for it in ("used", "half")]
    assert list(rows)[-3:] == ["assistant", *names]
    sizes = [rows[name]["parameters"] for name in ("assistant", *names)]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < sizes[0]
    whole = load_encoder(folder / "assistant")
    data = folder / "stages/example_data/data"
    for name in ("used", "half"):
        trimmed = load_encoder(folder / f"assistant_trimmed_{name}")
        row = rows[f"assistant, trimmed, {name}"]
        gone = whole.tokenizer.vocabulary_size - trimmed.tokenizer.vocabulary_size
        assert gone * 32 == sizes[0] - row["parameters"]
        scores = score_set(trimmed, "examples", data, ["de", "fr"])
        assert row["cross_lingual"] == pytest.approx(scores["cross_lingual"], abs=0.01)
        step = folder / f"stages/trim_assistant_{name}"
        result = read_json(step / "done.json")["result"]
        assert result["pieces_before"] - result["pieces_after"] == gone
        if name == "used":
            assert result["texts_unchanged"] == 1.0
        else:
            assert gone and result["tokens_kept"] < 1.0


def test_every_student_is_trimmed(tmp_path):
    recipe = load_recipe("msd_tradeoffs", "smoke", {"trim.half.keep": 0.5})
    folder = SimpleNamespace(step=tmp_path.joinpath)
    names = {step.name for step in steps_of(Run(recipe, folder, (), tmp_path))}
    for model in ("student", "student_cut80"):
        trim = f"trim_{model}_half"
        assert {trim, f"score_{trim}", f"keep_{model}_trimmed_half"} <= names
    assert "trim_assistant_half" not in names
    assert load_recipe("msd_tradeoffs", "smoke").settings()["trim"] == {}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("trim.half.keep", 0, "`trim.half.keep"),
        ("trim.half.keep", 1.5, "`trim.half.keep"),
        ("trim.half.kep", 5, "Unknown key `trim.half.kep`.*`keep`"),
        ("trim.Half", {}, "pattern"),
    ],
)
def test_mistakes(key, value, message):
    with pytest.raises(InputError, match=message):
        load_recipe("demo", "smoke", {key: value})
