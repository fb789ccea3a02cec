import json
import re
from html import unescape
from pathlib import Path

import pytest

from keras_msd.checks import InputError
from keras_msd.report import charts, write_report
from keras_msd.report.runs import best, verdict

RECIPE = (Path(__file__).parent / "golden" / "report_recipe.toml").read_text()

ROWS = [
    {"name": "teacher", "kind": "teacher", "bytes": 90_000_000, "monolingual": 86.74},
    {"name": "assistant", "kind": "assistant", "bytes": 80_150_000,
     "table_bytes": 36_860_000, "parameters": 20_037_120, "cross_lingual": 61.03},
    {"name": "closed form, B 120", "kind": "closed_form", "cross_lingual": 51.4},
    {"name": "student, untrained", "kind": "untrained", "student": "student",
     "bytes": 33_210_000, "parameters": 8_300_001, "cross_lingual": 12.25},
    {"name": "student, align_embedding", "kind": "stage", "stage": "align_embedding",
     "student": "student", "bytes": 33_210_000, "parameters": 8_300_001,
     "cross_lingual": 49.5, "tracks": {"de": 1.0}},
    {"name": "student, contrastive_learning", "kind": "stage", "student": "student",
     "stage": "contrastive_learning", "bytes": 33_210_000, "parameters": 8_300_001,
     "cross_lingual": 58.71, "retrieval": 66.66, "custom_score": 3.25,
     "tracks": {"en-de": 60.5, "de": 70.25}},
]  # fmt: skip

NEIGHBOURS = [
    {
        "query": "电车 <b>zwölf</b>",
        "language": "zh",
        "neighbours": [{"sentence": "The tram & the bus", "cosine": 0.8765}],
    }
]


def write_run(folder):
    """Write the folder of a finished run; return it."""
    (folder / "stages" / "align_embedding").mkdir(parents=True)
    (folder / "stages" / "contrastive_learning").mkdir()
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    scores = {
        "recipe": "two_students",
        "scale": "lab",
        "rows": ROWS,
        "measured": {"kept": 96.2},
    }
    write(folder / "scores.json", scores)
    timings = {
        "parts": {"stages": 150.0, "evaluation": 30.0},
        "speed": {"student": 812},
    }
    write(folder / "timings.json", timings)
    history = {
        "steps": [10, 20, 30],
        "terms": {"source_mse": [0.5, 0.2, 0.1], "soft_contrastive": [-1.0, 0.0, 1.5]},
    }
    write(folder / "stages" / "align_embedding" / "history.json", history)
    write(
        folder / "stages" / "contrastive_learning" / "history.json",
        {"steps": [7], "terms": {"target_mse": [0.25]}},
    )
    write(folder / "neighbours.json", NEIGHBOURS)
    return folder


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The report of the run: drawn once, as figures take most of the time."""
    run = write_run(tmp_path_factory.mktemp("report") / "run")
    path = write_report(run)
    assert path == run / "report.html"
    return path.read_text(encoding="utf-8")


def write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")


def words(html):
    """Return the text between tags, as a browser shows it."""
    return unescape(re.sub("<[^>]*>", "", html))


def table_row(text, first):
    """Return the cells of the first row that begins with a text."""
    rows = re.findall("<tr[^>]*>(.*?)</tr>", text, re.S)
    cells = (re.findall("<t[dh][^>]*>(.*?)</t[dh]>", row, re.S) for row in rows)
    shown = ([words(cell) for cell in row] for row in cells)
    return next(row for row in shown if row[0] == first)


def test_tables_show_what_the_files_say(text):
    assert table_row(text, "model")[1:] == [
        "cross-lingual", "monolingual", "retrieval", "custom score", "parameters",
        "MB", "table MB",
    ]  # fmt: skip
    assert table_row(text, "teacher")[1:] == ["", "86.74", "", "", "", "90.00", ""]
    assert table_row(text, "assistant")[1:] == [
        *("61.03", "", "", ""),
        *("20,037,120", "80.15", "36.86"),
    ]
    last = table_row(text, "student, contrastive learning")
    assert last[1:] == ["58.71", "", "66.66", "3.25", "8,300,001", "33.21", ""]
    # Best of the small models, though the assistant's score is higher.
    bold = re.findall("<b>([^<]*)</b>", text)
    assert "58.71" in bold and "61.03" not in bold and "49.50" not in bold


def test_the_row_and_the_sets_are_named(text):
    row = "Somebody 2022, table 2, row B 128. Evaluated on stsb dev."
    assert row in words(text)


def test_time_of_each_part(text):
    assert table_row(text, "stages") == ["stages", "2.5"]
    assert table_row(text, "evaluation") == ["evaluation", "0.5"]
    assert table_row(text, "all") == ["all", "3.0"]
    assert table_row(text, "student") == ["student", "812"]


def test_no_model_is_the_best_by_its_language_bias():
    """An untrained one has none, because it knows nothing."""
    scores = {"untrained": (2.0, -0.1), "student": (60.0, -3.0)}
    rows = [
        {"name": name, "cross_lingual": across, "language_bias": bias}
        for name, (across, bias) in scores.items()
    ]
    assert best(rows, "cross_lingual") == 60.0
    assert best(rows, "language_bias") is None


def test_text_is_escaped_and_nothing_is_fetched(text):
    assert "b>zwölf" in words(text)
    assert "<b>zwölf" not in text and "The tram &amp; the bus" in text
    assert not re.findall(r"<(?:script|img|link|iframe|object|image)\b", text)
    assert not re.findall("(?:href|src)=[\"']?(?![\"'#])", text)
    # Name spaces are names, not addresses that are fetched.
    rest = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert "http:" not in rest and "https:" not in rest and "@import" not in rest
    assert re.findall(r"url\((?!#)", rest) == []
    assert "default-src 'none'" in text


def test_pictures_have_every_stage_term_and_model(text):
    pictures = dict(
        re.findall(r"<figure [^>]*aria-label='([^']*)'>.*?(<svg.*?</svg>)", text, re.S)
    )
    assert list(pictures) == [
        "cross-lingual against size",
        "cross-lingual after each stage",
        "retrieval against size",
        "align embedding (align_embedding/history.json)",
        "contrastive learning (contrastive_learning/history.json)",
    ]
    labels = {
        name: re.findall(r">([^<>]+)</text>", svg) for name, svg in pictures.items()
    }
    assert {"source mse", "soft contrastive"} <= set(
        labels["align embedding (align_embedding/history.json)"]
    )
    stages = labels["cross-lingual after each stage"]
    assert {"untrained", "student", "assistant", "closed form, B 120"} <= set(stages)
    sizes = labels["cross-lingual against size"]
    assert "student, contrastive learning" in sizes and "assistant" in sizes
    assert "student, align embedding" not in sizes  # only a finished student
    assert all(
        "currentColor" in svg and "#010203" not in svg for svg in pictures.values()
    )


def test_a_model_has_one_colour():
    rows = [
        {"name": f"{name}, {stage}", "student": name, "stage": stage}
        for name in ("student", "student_small")
        for stage in ("untrained", "teach_student")
    ]
    colours = charts.colours_of([{"name": "assistant"}, *rows])
    assert list(colours) == ["student", "student_small", "assistant"]
    assert len({*colours.values()}) == 3


def test_axes_of_scores_do_not_exaggerate():
    rows = [
        {"name": name, "kind": "closed_form", "bytes": size, "cross_lingual": score}
        for name, size, score in (("a", 1_000_000, 50.0), ("b", 2_000_000, 50.1))
    ]
    svg = charts.sizes(rows, "cross_lingual", charts.colours_of(rows))
    ticks = [float(it) for it in re.findall(r">(\d\d\.\d|\d\d)</text>", svg)]
    assert max(ticks) - min(ticks) >= 15


def test_settings_are_folded_at_the_end(text):
    *_, last = re.findall("<details>.*?</details>", text, re.S)
    assert "<h2>Settings</h2>" in last and "bottleneck_dim = 120" in last
    assert text.partition("<details>")[0].count("bottleneck_dim") == 0


def test_the_page_begins_with_a_verdict(text):
    first = text[text.index("<h1>") : text.index("<h2>")]
    share, size = 100 * 58.71 / 61.03, 100 * 33.21 / 80.15
    assert f"keeps {share:.1f} % of the assistant's cross-lingual score" in unescape(
        first
    )
    assert f"in 33.2 MB, {size:.0f} % of its 80.2 MB" in first
    assert "No closed form of at most its bytes was scored" in first
    assert "student, untrained 12.2, align embedding +37.2" in first
    assert "contrastive learning +9.2" in first


def line(kind, score, megabytes, **more):
    name = more.get("student", kind)
    size = megabytes * 1_000_000
    return {"name": name, "kind": kind, "cross_lingual": score, "bytes": size, **more}


STUDENT = {"student": "student", "stage": "teach_student"}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([line("closed_form", 55.0, 2)], "5.0 points below the best closed form"),
        (
            [line("closed_form", 45.0, 2)],
            "5.0 points above the best closed form of at most its bytes: closed form",
        ),
        ([line("closed_form", 50.0, 2)], "0.0 points above the best closed form"),
        ([line("closed_form", 99.0, 4)], "No closed form of at most its bytes"),
    ],
)
def test_the_verdict_compares_with_closed_forms_of_its_size(rows, said):
    rows = [line("assistant", 60.0, 8), *rows, line("stage", 50.0, 3, **STUDENT)]
    assert said in " ".join(verdict(rows))


def test_a_run_without_students_has_a_verdict_too():
    first = line("assistant", 50.5, 8) | {"name": "assistant before STS"}
    found = " ".join(verdict([first, line("assistant", 49.5, 8)]))
    assert "score of 49.5, 1.0 points below assistant before STS" in found
    assert verdict([]) == ["This run has no score."]


def test_same_files_same_bytes_and_optional_parts(run, text):
    assert write_report(run).read_text(encoding="utf-8") == text
    (run / "neighbours.json").unlink()
    for history in run.glob("stages/*/history.json"):
        history.unlink()
    text = write_report(run).read_text(encoding="utf-8")
    assert "Nearest neighbours" not in text and "Losses</h2>" not in text


@pytest.mark.parametrize("name", ["recipe.toml", "scores.json", "timings.json"])
def test_a_missing_file_is_named(run, name):
    (run / name).unlink()
    with pytest.raises(InputError, match=f"{name}` does not exist"):
        write_report(run)
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("recipe.toml", "[a", "not valid TOML"),
        ("scores.json", "{", "not valid JSON"),
        ("scores.json", "[]", "must have the key `recipe`"),
        ("scores.json", '{"recipe": "a", "scale": "lab", "rows": 3}', "`rows`, a l"),
        ("timings.json", "{}", "key `parts`"),
        ("stages/align_embedding/history.json", '{"steps": []}', "the key `terms`"),
    ],
)
def test_broken_files_are_named(run, name, content, message):
    (run / name).write_text(content)
    with pytest.raises(InputError, match=message) as error:
        write_report(run)
    assert name.rpartition("/")[2] in str(error.value)
