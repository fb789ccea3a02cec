import json
import re

import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.recipes.runs.run_folder import to_toml
from keras_msd.report import write_report_of_all
from keras_msd.report.blocks import Heading, Table, Text
from keras_msd.report.plots import front_of

ROWS = [
    {"name": "teacher", "kind": "teacher", "monolingual": 80.0},
    {"name": "assistant", "kind": "assistant", "bytes": 8_000_000,
     "cross_lingual": 60.25, "monolingual": 70.5},
    {"name": "student, teach_student", "kind": "stage", "student": "student",
     "stage": "teach_student", "bytes": 2_000_000, "cross_lingual": 11.0},
    {"name": "student, contrastive_learning", "kind": "stage", "student": "student",
     "stage": "contrastive_learning", "bytes": 2_000_000, "cross_lingual": 50.5,
     "monolingual": 55.125, "tracks": {"en-de": 51.5}},
    {"name": "student_x, contrastive_learning", "kind": "stage",
     "student": "student_x", "stage": "contrastive_learning", "bytes": 4_000_000,
     "cross_lingual": 40.75},
]  # fmt: skip
ABOUT = {"title": "T", "paper": "Somebody | 2022", "scales": ["smoke"]}
SETTINGS = {
    "evaluate": {"sts": "stsb", "split": "dev", "languages": ["de"]},
    "stages": {"teach_student": {}, "contrastive_learning": {}},
}


def add(folder, name, about, rows=ROWS, settings=SETTINGS):
    """Write the folder of a finished run."""
    (folder / name).mkdir()
    recipe = {"recipe": {"name": name, **ABOUT, **about}, "scale": "smoke", **settings}
    (folder / name / "recipe.toml").write_text(to_toml(recipe))
    scores = {"recipe": name, "scale": "smoke", "rows": rows, "published": {}}
    (folder / name / "scores.json").write_text(json.dumps(scores))
    (folder / name / "timings.json").write_text('{"parts": {}}')


@pytest.fixture
def runs(tmp_path):
    add(tmp_path, "one", {
        "table": "7 and 8; 2", "row": "B 128",
        "expected": {"cross_lingual": 79.4, "en_de": 70.0, "en_tr": 60.0},
    })  # fmt: skip
    add(tmp_path, "several", {
        "table": "3", "row": "all",
        "rows": {
            "student": {"table": "figure 1", "row": "3 layers", "x": 3.0},
            "student_x": {"table": "figure 1", "row": "6 layers", "x": 6.0,
                          "expected": {"cross_lingual": 41.0}},
            "assistant": {"table": "3", "row": "X-KD", "expected": {"monolingual": 1}},
            "student_gone": {"table": "3", "row": "gone",
                             "expected": {"monolingual": 2}},
        },
    })  # fmt: skip
    history = {"steps": [1], "terms": {"loss": [1.0]}}
    curve = {"scores": {"steps": [5, 10], "cross_lingual": [12.5, 30.5],
                        "en-ar": [7.25, 9.0]}}  # fmt: skip
    add(tmp_path, "curves", {
        "rows": {"student_x": {"table": "figure 3", "row": "one <b>"}},
    })  # fmt: skip
    stage = tmp_path / "curves/stages/contrastive_learning_x"
    stage.mkdir(parents=True)
    (stage / "history.json").write_text(json.dumps(history | curve))
    return tmp_path


def report(folder):
    """Return report.html and report.md."""
    page = write_report_of_all(folder)
    return page.read_text(), (folder / "report.md").read_text()


def cells(text, first, nth=0):
    """Return the cells of the nth row that begins with `first`."""
    found = re.findall(rf"^\| ({re.escape(first)} \|.*) \|$", text, re.M)
    return [cell.strip() for cell in found[nth].split(" | ")]


def test_measured_stands_beside_published(runs):
    _, text = report(runs)
    assert cells(text, "B 128") == ["B 128", "50.5", "79.4", "-28.9", "one/scores.json"]
    assert cells(text, "B 128", 1) == ["B 128", "51.5 / 70.0 / -18.5", "- / 60.0 / -"]
    assert cells(text, "X-KD") == ["X-KD", "70.5", "1.0", "+69.5",
                                   "several/scores.json"]  # fmt: skip
    assert cells(text, "gone") == ["gone", "", "2.0", "", "several/scores.json"]
    assert cells(text, "3 layers")[1:7] == ["55.1", "", "", "50.5", "", ""]
    assert cells(text, "6 layers")[4:7] == ["40.8", "41.0", "-0.2"]


def test_a_row_stands_in_each_of_its_tables_in_the_papers_order(runs):
    html, text = report(runs)
    headings = re.findall(r"^### (.*)", text.partition("## Quality")[0], re.M)
    assert headings == ["Table 2", "Table 3", "Tables 7 and 8", "Figure 1", "Figure 3"]
    assert text.count("| B 128 | 50.5 ") == 2
    assert re.findall("<h3>(.*?)</h3>", html)[:5] == headings


def test_figures_are_plots_of_the_rows(runs):
    html, _ = report(runs)
    plots = dict(re.findall("aria-label='([^']*)'>.*?(<svg.*?</svg>)", html, re.S))
    assert [name.partition(", ")[0] for name in plots][:4] == [
        "figure 1: monolingual", "figure 1: cross-lingual",
        "figure 3: cross-lingual by update", "figure 3: en-ar by update",
    ]  # fmt: skip
    first, curve, track = list(plots.values())[1:4]
    assert "measured" in first and "published" in first and "one &lt;b&gt;" in curve
    assert "one &lt;b&gt;" in track and curve != track
    assert "one <b>" not in html
    assert "default-src 'none'" in html and "<script" not in html


def test_the_front_has_no_better_model_of_its_size(runs):
    _, text = report(runs)
    assert cells(text, "student, contrastive learning")[1:3] == ["2.00", "50.5"]
    assert cells(text, "assistant")[1:3] == ["8.00", "60.2"]
    assert "student\\_x, contrastive" not in text  # bigger than the student, and worse
    assert "student x, contrastive" not in text
    draw = np.random.default_rng(0)
    points = [tuple(map(float, p)) for p in draw.integers(0, 8, (60, 2))]
    beaten = {
        (a, b)
        for a, b in points
        for x, y in points
        if (x <= a and y > b) or (x < a and y >= b)
    }
    front = [points[i] for i in front_of(points)]
    assert front == sorted(set(points) - beaten)


def test_models_of_other_test_sets_are_not_compared(runs):
    other = {"evaluate": SETTINGS["evaluate"] | {"split": "test"}, "stages": {}}
    add(runs, "other", {}, [ROWS[1] | {"cross_lingual": 1.0}], other)
    _, text = report(runs)
    assert "stsb test, English with de" in text
    assert "| 8.00 | 1.0 | other/scores.json |" in text


def test_settings_that_differ_from_the_paper(tmp_path):
    from keras_msd.recipes.schema.loading import load_recipe

    for name, scale in (("msd_xlmr_ru3", "smoke"), ("msd_lab", "lab")):
        settings = load_recipe(name, scale).settings()
        add(tmp_path, name, settings.pop("recipe"), ROWS, settings | {"scale": scale})
    _, text = report(tmp_path)
    teacher = cells(text, "Teacher")
    assert teacher[1] == "source hashed-words; width 32."
    assert teacher[2].startswith("source hf://sentence-transformers/paraphrase-")
    assert cells(text, "Student")[2].startswith("a unit of 3 layers")
    assert "| Losses |" not in text  # the same at both scales
    assert "The recipe has no paper scale" in text


def test_every_number_follows_its_file(runs):
    before = report(runs)
    for path in sorted(runs.glob("*/scores.json")):
        text = path.read_text()
        path.write_text(re.sub(r"(\d)\.(\d)", r"1\1.\2", text))
        after = report(runs)
        assert after != before, path
        before = after
    assert report(runs) == before


def test_no_runs_and_no_folder(tmp_path):
    assert "0 finished runs" in report(tmp_path)[1]
    with pytest.raises(InputError, match="folder of runs"):
        write_report_of_all(tmp_path / "none")


def test_blocks_are_escaped():
    table = Table(["a|b"], [["<i>"]], words=True)
    assert table.markdown() == "| a\\|b |\n| --- |\n| &lt;i> |\n"
    assert "&lt;i&gt;" in table.html() and "<i>" not in table.html()
    assert Text("2*3 <b>").markdown() == "2\\*3 &lt;b>\n"
    assert Heading("x", 3).html() == "<h3>x</h3>\n"
