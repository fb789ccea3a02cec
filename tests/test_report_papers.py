"""Rows of papers in reports: their names of scores, several models, what is ours."""

import json
import re
import tomllib

import pytest

from keras_msd.recipes.runs.run_folder import to_toml
from keras_msd.recipes.schema.folders import recipe_files, recipe_folder
from keras_msd.recipes.schema.loading import describe, load_recipe
from keras_msd.report import write_report, write_report_of_all
from keras_msd.report.all_runs import _in_short
from keras_msd.report.differences import differences
from keras_msd.report.files import read_run
from keras_msd.report.paper_tables import paper_rows
from keras_msd.report.score_rows import measured, score_of

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
    return re.sub("(<[^>]*>)+", "|", text)


def all_of(folder):
    """Return report.md and the captions of the plots of report.html."""
    page = write_report_of_all(folder).read_text(encoding="utf-8")
    return (folder / "report.md").read_text(), re.findall("aria-label='(.*?)'", page)


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


def test_lealla_is_measured_in_every_table(tmp_path):
    one = add(tmp_path, "lealla_small", [student()])
    text = page_of(one)
    assert "tatoeba|(80.70)|70.25|" in text and "-10.45" not in text
    assert "sentences or models, hence no difference: Tatoeba, 112 languages." in text
    assert "all languages of the data folder" in text
    assert "un avg|87.30|61.50|-25.80" in text
    assert "bucc avg|91.50|52.75|-38.75" in text
    assert "un es|89.40|62.50|-26.90" in text
    assert "|retrieval|retrieval, other languages|UN|BUCC|" in text
    assert "on stsb dev, Tatoeba, UN, BUCC" in text
    text, captions = all_of(tmp_path)
    assert text.count("| LEALLA-small | 70.2 | (80.7) |  | 61.5 | 87.3 | -25.8 |") > 3
    head = next(line for line in text.splitlines() if line.startswith("| row |"))
    assert head.count("|") == 12 and "un es" not in head
    assert "| 62.5 / 89.4 / -26.9 |" in text
    drawn = [caption for caption in captions if caption.startswith("figure 3")]
    assert [one.split(": ")[1].partition(",")[0] for one in drawn] == [
        "retrieval", "UN", "BUCC",
    ]  # fmt: skip


def test_all_tatoeba_files_are_the_papers(tmp_path):
    tracks = {f"x{number}": 70.25 for number in range(112)}
    one = add(tmp_path, "lealla_small", [student(retrieval_tracks=tracks)])
    assert "tatoeba|80.70|70.25|-10.45|" in page_of(one)
    assert "| LEALLA-small | 70.2 | 80.7 | -10.5 |" in all_of(tmp_path)[0]


def test_sizes_are_columns_of_the_paper(tmp_path):
    counts = {"embedding": 32_495_616, "body": 21_263_616, "projection": 5}
    rows = [student(parameters_by_layer=counts)]
    text = page_of(add(tmp_path, "msd_xlmr_b128_ru3", rows))
    assert "embedding (M parameters)|32.49|32.50|+0.01|" in text
    text, _ = all_of(tmp_path)
    cells = "| 32.50 / 32.49 / +0.01 | 21.26 / 21.26 / +0.00 |"
    assert text.count(cells) == 2  # tables 1 and 2, tables 7 and 8
    assert "the paper's models" not in text
    add(tmp_path / "lab", "msd_xlmr_b128_ru3", rows, "lab")
    text, _ = all_of(tmp_path / "lab")
    assert "| 32.50 / (32.49) / - | 21.26 / (21.26) / - |" in text
    assert "languages, the paper's models." in text


def test_the_teacher_is_row_0_of_lealla(tmp_path):
    about = describe("lealla_dimensions").rows["teacher"]
    assert about.expected["tatoeba"] == 83.7
    teacher = {"name": "teacher", "kind": "teacher", **SCORED}
    add(tmp_path, "lealla_dimensions", [teacher])
    found = paper_rows({"a": read_run(tmp_path / "lealla_dimensions")})
    own = [row for row in found if row.model == "teacher"]
    assert [row.table for row in own] == ["1", "2", "6", "7", "figure 1"]
    assert all("LaBSE" in row.name for row in own)
    assert own[0].measured["retrieval"] == 70.25


def test_each_row_of_a_recipe_of_several_is_in_its_own_report(tmp_path):
    rows = [student(), student("student_ams", retrieval=60.5)]
    text = page_of(add(tmp_path, "lealla_lab", rows, "lab"))
    start = text.index("Published and measured")
    published = text[start : text.index("Time", start)]
    assert "all at lab size|70.2|" not in published
    assert "LEALLA-small, ams+fd+ld, at lab size|70.2|(80.7)|" in published
    assert "LEALLA-small, ams, at lab size|60.5|(80.3)|scores.json" in published
    assert "gamma 10" not in published  # the paper has no such row
    add(tmp_path, "msd_convergence", [student()], "lab")  # prints no numbers at all
    assert "Published and measured" not in page_of(tmp_path / "msd_convergence")


def test_what_is_not_as_published_stands_in_both_reports(tmp_path):
    own = add(tmp_path / "a", "msd_minilm_ru3", [])
    text, page = all_of(tmp_path / "a")[0], page_of(own)
    assert "As published." not in text + page and "| Teacher |" not in text
    assert "As at the recipe's paper scale. What is not the paper's" in text
    row = "stages.contrastive_learning.dims | mean | the paper prints a sum"
    assert f"| msd_minilm_ru3 | {row}" in text and row.replace(" | ", "|") in page
    changes = {"stages.contrastive_learning.temperature": 0.25}
    add(tmp_path / "b", "msd_minilm_ru3", [], **changes)
    text, _ = all_of(tmp_path / "b")
    assert "As at the recipe's" not in text and "temperature 0.25" in text
    assert "| Teacher |" not in text  # only what differs
    own = add(tmp_path / "c", "msd_lab", [], "lab")
    assert "scale lab. A recipe of our own, no row of a paper." in page_of(own)
    assert "The recipe has no paper scale" in page_of(own)


def test_recipes_that_share_a_reason_are_named_in_short(tmp_path):
    names = [f"msd_xlmr_b128_ru{layers}" for layers in (3, 6, 12)]
    for name in (*names, "msd_xlmr_b256_ru3", "msd_xlmr_mean"):
        add(tmp_path, name, [])
    text, _ = all_of(tmp_path)
    assert "| msd_xlmr_\\* | evaluate.sets | sts2017-extended, tatoeba |" in text
    assert "| msd_xlmr_b\\* | data.seed | 0 |" in text
    assert _in_short(["a1", "a2", "a3", "a4", "a5"], [f"a{n}" for n in range(6)]) == (
        "a* but a0"
    )


def test_every_value_that_a_file_calls_ours_is_listed():
    listed = set()
    for path in recipe_files().values():
        if "paper" not in describe(path).scales:
            continue
        ours = set(describe(path).ours)
        listed |= {(path.stem.partition("_")[0], key) for key in ours}
        base = tomllib.loads(path.read_text(encoding="utf-8"))["extends"]
        xkd = path.stem.startswith("xkd")
        for file in (path, recipe_folder() / f"{base}.toml")[: 2 - xkd]:
            assert set(called_ours(file)) <= ours, file
    assert {name for name, _ in listed} == {"lealla", "msd", "xkd"}
    found = set(called_ours(recipe_folder() / "_shared_lealla.toml"))
    assert "stages.teach_thin_deep.clip_norm" in found and len(found) >= 6


def test_every_reason_is_of_a_setting():
    for citation in ("ding2022", "mao2023"):
        paths = [
            path
            for path in recipe_files().values()
            if "paper" in describe(path).scales and describe(path).citation == citation
        ]
        recipes = [load_recipe(path, "paper").settings() for path in paths]
        said = {key for recipe in recipes for key, _, _ in differences(recipe).ours}
        assert {key for recipe in recipes for key in recipe["recipe"]["ours"]} == said


def called_ours(path):
    """Yield dotted keys that a comment calls ours or the authors' code's alone."""
    section = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line[1 : line.index("]")].removeprefix("paper.")
        value, _, comment = line.partition("#")
        small = section.partition(".")[0] in ("smoke", "lab", "recipe")
        if (
            "=" in value
            and re.search(r"\bours\b|^ authors' code", comment)
            and not small
        ):
            yield f"{section}.{value.partition('=')[0].strip()}"
