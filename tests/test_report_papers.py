"""Rows of papers in reports: their names of scores, several models, what is ours."""

import json
import re
import tomllib
from html import unescape

import pytest

from keras_msd.files import to_toml
from keras_msd.recipes.files import recipe_folder, recipe_names, recipe_places
from keras_msd.recipes.loading import describe, load_recipe
from keras_msd.report import write_report, write_report_of_all
from keras_msd.report.reports import differences
from keras_msd.report.runs import measured, published_rows, read_run, score_of

SCORED = {
    "cross_lingual": 41.5, "retrieval": 70.25, "retrieval_others": 33.5, "un": 61.5,
    "bucc": 52.75, "bytes": 2_000_000,
    "tracks": {"un-es": 62.5, "bucc-de": 53.5, "ar": 64.5, "en-ar": 65.5, "en": 66.5},
}  # fmt: skip


def add(folder, name, rows, scale="paper", **overrides):
    """Write the folder of a finished run of a packaged recipe; return it."""
    own = folder / name
    own.mkdir(parents=True)
    recipe = load_recipe(name, scale, overrides)
    (own / "recipe.toml").write_text(to_toml(recipe.settings()), encoding="utf-8")
    scores = {"recipe": name, "scale": scale, "rows": rows}
    scores["published"] = dict(recipe.recipe.expected)
    (own / "scores.json").write_text(json.dumps(scores))
    (own / "timings.json").write_text('{"parts": {}}')
    return own


def student(name="student", **scores):
    """Return the last score row of a student."""
    about = {"kind": "stage", "stage": "teach_thin_deep", "student": name}
    return {"name": f"{name}, teach_thin_deep", **about, **SCORED, **scores}


def page_of(folder):
    """Return the text of a run's report, cells set apart by bars."""
    text = re.sub("<svg.*?</svg>", "", write_report(folder).read_text(), flags=re.S)
    return unescape(re.sub("(<[^>]*>)+", "|", text))


def all_of(folder):
    """Return the text of the report of all runs, cells set apart by bars."""
    return re.sub("(<[^>]*>)+", "|", write_report_of_all(folder).read_text())


@pytest.mark.parametrize(
    ("key", "value"),
    [("tatoeba", 70.25), ("un_avg", 61.5), ("bucc_avg", 52.75), ("un_es", 62.5),
     ("bucc_de", 53.5), ("ar_ar", 64.5), ("en_ar", 65.5), ("en_en", 66.5),
     ("cross_lingual", 41.5), ("en_de", None)],
)  # fmt: skip
def test_a_papers_column_is_found_by_our_name(key, value):
    assert score_of(SCORED, key) == value
    rows = [student(), student("student_x", retrieval=1.5, un=2.5)]
    assert measured({"rows": rows}, key) == value
    if key in ("tatoeba", "un_avg"):
        assert measured({"rows": rows}, key, "student_x") in (1.5, 2.5)


def test_published_and_measured_stand_side_by_side(tmp_path):
    one = add(tmp_path, "lealla_small", [student()])
    text = page_of(one)
    for row in ("tatoeba|80.7|70.2", "un avg|87.3|61.5", "bucc avg|91.5|52.8",
                "un es|89.4|62.5"):  # fmt: skip
        assert f"|LEALLA-small|{row}|" in text
        assert f"|LEALLA-small|{row}|" in all_of(tmp_path)
    assert "on tatoeba in 112 languages; un in 4 languages; bucc2018 in 4" in text
    assert "on stsb dev, Tatoeba, UN, BUCC. Other sentences" in text


def test_sizes_are_columns_of_the_paper(tmp_path):
    counts = {"embedding": 32_495_616, "body": 21_263_616, "projection": 5}
    rows = [student(parameters_by_layer=counts)]
    text = page_of(add(tmp_path, "msd_xlmr_b128_ru3", rows))
    assert "|embedding (M parameters)|32.49|32.50|" in text


def test_the_teacher_is_row_0_of_lealla(tmp_path):
    about = describe("lealla_dimensions").rows["teacher"]
    assert about.expected["tatoeba"] == 83.7
    teacher = {"name": "teacher", "kind": "teacher", **SCORED}
    add(tmp_path, "lealla_dimensions", [teacher])
    found = published_rows(read_run(tmp_path / "lealla_dimensions"))
    (own,) = [row for row in found if row.model == "teacher"]
    assert own.table == "1; 2; 6; 7" and "LaBSE" in own.name
    assert next(own.cells())[1:] == ("tatoeba", "83.7", "70.2")


def test_each_row_of_a_recipe_of_several_is_in_its_own_report(tmp_path):
    rows = [student(), student("student_ams", retrieval=60.5)]
    text = page_of(add(tmp_path, "lealla_lab", rows, "lab"))
    assert "|LEALLA-small, ams+fd+ld, at lab size|tatoeba|80.7|70.2|" in text
    assert "|LEALLA-small, ams, at lab size|tatoeba|80.3|60.5|" in text
    published = text.partition("Published and measured")[2].partition("|Quality|")[0]
    assert "gamma 10" not in published  # the paper has no such row
    add(tmp_path, "msd_convergence", [student()], "lab")  # prints no numbers at all
    assert "Published and measured" not in page_of(tmp_path / "msd_convergence")


def test_what_is_not_as_published_is_listed(tmp_path):
    page = page_of(add(tmp_path / "a", "msd_minilm_ru3", []))
    assert "As published." not in page
    row = "stages.contrastive_learning.dims|mean|the paper prints a sum"
    assert row in page and "|paper scale|" not in page
    changes = {"stages.contrastive_learning.temperature": 0.25}
    page = page_of(add(tmp_path / "b", "msd_minilm_ru3", [], **changes))
    assert "|stages.contrastive_learning.temperature|0.25|0.05|" in page
    page = page_of(add(tmp_path / "c", "tiny12", [], "lab"))
    assert "scale lab. A recipe of our own, no row of a paper." in page
    assert "The recipe has no paper scale" in page


def test_every_value_that_a_file_calls_ours_is_listed():
    listed = set()
    for name, (path, row) in recipe_places().items():
        if "paper" not in describe(name).scales:
            continue
        ours = set(describe(name).ours)
        listed |= {(name.partition("_")[0], key) for key in ours}
        base = tomllib.loads(path.read_text(encoding="utf-8"))["extends"]
        xkd = name.startswith("xkd")
        for file in (path, recipe_folder() / f"{base}.toml")[: 2 - xkd]:
            assert set(called_ours(file, row)) <= ours, (file, row)
    assert {name for name, _ in listed} == {"lealla", "msd", "xkd"}
    found = set(called_ours(recipe_folder() / "_shared_lealla.toml"))
    assert "stages.teach_thin_deep.clip_norm" in found and len(found) >= 6


def test_every_reason_is_of_a_setting():
    for citation in ("ding2022", "mao2023"):
        names = [
            name
            for name in recipe_names()
            if "paper" in describe(name).scales and describe(name).citation == citation
        ]
        recipes = [load_recipe(name, "paper").settings() for name in names]
        said = {key for recipe in recipes for key, _, _ in differences(recipe).ours}
        assert {key for recipe in recipes for key in recipe["recipe"]["ours"]} == said


def called_ours(path, row=""):
    """Yield dotted keys that a comment calls ours or the authors' code's alone.

    Args:
        path: A file.
        row: The one of its rows that counts.
    """
    section = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line[1 : line.index("]")]
        value, _, comment = line.partition("#")
        dotted = f"{section}.{value.partition('=')[0].strip()}"
        dotted = dotted.removeprefix(f"rows.{row}.").removeprefix("paper.")
        not_here = ("smoke", "lab", "backbone", "recipe", "rows")
        counts = dotted.partition(".")[0] not in not_here
        if "=" in value and re.search(r"\bours\b|^ authors' code", comment) and counts:
            yield dotted
