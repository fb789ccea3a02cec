"""`evaluate.part` of a recipe: what rows, curves and weights are chosen on."""

import json
from types import SimpleNamespace

import pytest
from small_recipe import german, sentences, write_place, write_rows

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.evaluate import read_tatoeba, score_set, sts
from keras_msd.evaluate.parts import halves
from keras_msd.io.files import read_json
from keras_msd.recipes import load_recipe
from keras_msd.recipes.labelled import ScoredRows

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")


@pytest.mark.parametrize(
    ("name", "scale", "part", "message"),
    [
        (
            "msd_sizes",
            "lab",
            "reported",
            "`evaluate.part`.*'choose' or 'report'",
        ),
        ("msd_minilm_ru3", "paper", "choose", "`sts2017-extended` has no halves"),
    ],
)
def test_parts_that_there_are_not(name, scale, part, message):
    with pytest.raises(InputError, match=message):
        load_recipe(name, scale, {"evaluate.part": part})


CHANGES = {
    "evaluate.part": "report",
    "evaluate.artefacts": False,
    "evaluate.intermediate": "none",
    "stages.teach_assistant.skip": True,
    "stages.align_embedding.skip": True,
    "stages.teach_student.skip": True,
    "stages.contrastive_learning.scored": 1,
    "stages.regress_similarity": {
        "steps": 4,
        "batch_size": 8,
        "evaluate_every": 1,
        "learning_rate": 0.01,
        "sets": {"examples": "over_5"},
        "dev_set": "examples",
        "languages": ["de"],
    },
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = write_place(tmp_path_factory.mktemp("halves"))
    first, second = sentences(24, 9), sentences(24, 10)
    rows = [
        (str(row % 6), german(a), german(b))
        for row, (a, b) in enumerate(zip(first, second, strict=True))
    ]
    write_rows(place / "data/sts/examples.train.de.tsv.gz", rows)
    return place


def test_a_run_reports_one_half_and_chooses_on_the_other(place):
    folder, data = place / "run", place / "data"
    done = msd.recipes.run(place / "small.toml", folder, None, data, overrides=CHANGES)
    assert done["part"] == "report" == read_json(folder / "scores.json")["part"]
    last = done["rows"][-1]
    student = msd.load_encoder(folder / "student")
    reported = score_set(student, "examples", data, ["de"], part="report")
    assert last["cross_lingual"] == pytest.approx(reported["cross_lingual"], abs=0.01)
    tatoeba = score_set(student, "tatoeba", data, ["de"], part="report")
    assert last["retrieval"] == pytest.approx(tatoeba["precision"], abs=0.01)
    assert tatoeba["pairs"] < len(read_tatoeba(data, ["de"])["deu"])
    page = (folder / "report.html").read_text()
    assert "Scores are of the half `report` of each set." in page

    step = folder / "stages/contrastive_learning"
    curve = json.loads((step / "history.json").read_text())["scores"]["cross_lingual"]
    before = msd.load_encoder(step / "encoder")
    scores = score_set(before, "examples", data, ["de"], part="report")
    assert curve == pytest.approx([scores["cross_lingual"]], abs=0.01)

    step = folder / "stages/regress_similarity"
    result = json.loads((step / "done.json").read_text())["result"]
    rows = msd.evaluate.read_sts_folder(data / "sts", ["de"], dataset="examples")
    of = halves(row[1:] for row in rows["en"])
    chosen = [row for row, half in zip(rows["de"], of, strict=True) if half == "choose"]
    kept = msd.load_encoder(step / "encoder")
    assert 2 < len(chosen) < len(rows["de"])
    assert result["dev_best"] == pytest.approx(sts(kept, chosen)["spearman"], abs=0.01)
    assert result["dev_before"] == pytest.approx(
        sts(before, chosen)["spearman"], abs=0.01
    )


@pytest.mark.parametrize("part", ["choose", "report"])
def test_a_dev_set_in_halves_needs_its_english_side(place, tmp_path, part):
    changes = CHANGES | {"evaluate.part": part}
    recipe = load_recipe(place / "small.toml", None, changes)
    settings = recipe.stages["regress_similarity"]
    run = SimpleNamespace(recipe=recipe, data_dir=place / "data")
    rows = ScoredRows(run, "regress_similarity", settings)
    names = [path.name for path in rows.files()]
    assert names == [f"examples.{it}.tsv.gz" for it in ("train.de", "dev.en", "dev.de")]
    for path in (place / "data/sts").glob("examples.*.de.tsv.gz"):
        target = tmp_path / "sts" / path.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    run.data_dir = tmp_path
    with pytest.raises(InputError, match=r"examples\.dev\.en\.tsv\.gz` does not exist"):
        ScoredRows(run, "regress_similarity", settings).check_files()
    run.recipe = load_recipe(
        place / "small.toml", None, changes | {"evaluate.part": "all"}
    )
    ScoredRows(run, "regress_similarity", settings).check_files()
