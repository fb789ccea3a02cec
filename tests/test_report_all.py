import json
import re

import pytest
import tomli_w

from keras_msd.checks import InputError
from keras_msd.report import write_report_of_all

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
SETTINGS = {
    "evaluate": {"sts": "stsb", "split": "dev", "languages": ["de"]},
    "stages": {"teach_student": {}, "contrastive_learning": {}},
}


def add(folder, name):
    """Write the folder of a finished run."""
    (folder / name).mkdir()
    about = {"name": name, "title": "T", "scales": ["smoke"]}
    recipe = {"recipe": about, "scale": "smoke", **SETTINGS}
    (folder / name / "recipe.toml").write_text(tomli_w.dumps(recipe))
    scores = {"recipe": name, "scale": "smoke", "rows": ROWS}
    (folder / name / "scores.json").write_text(json.dumps(scores))
    (folder / name / "timings.json").write_text('{"parts": {}}')


@pytest.fixture
def runs(tmp_path):
    for name in ("one", "several"):
        add(tmp_path, name)
    return tmp_path


def report(folder):
    """Return the page."""
    return write_report_of_all(folder).read_text()


def rows(page, first):
    """Return the cells of the rows that begin with `first`."""
    found = re.findall(r"<tr><th scope=row>(.*?)</th>(.*?)</tr>", page)
    return [re.findall("<td>(.*?)</td>", rest) for name, rest in found if name == first]


def test_each_run_has_its_verdict_and_a_link(runs):
    page = report(runs)
    ((verdict,),) = rows(page, "<a href='one/report.html'>one</a>")
    assert verdict.startswith("student keeps 83.8 % of the assistant")
    assert "default-src 'none'" in page and "<script" not in page


def test_a_failure_is_named(tmp_path):
    failed = [{"recipe": "broken", "error": "InputError: <b>no</b>"}]
    (tmp_path / "results.json").write_text(json.dumps(failed))
    assert rows(report(tmp_path), "broken") == [["InputError: &lt;b&gt;no&lt;/b&gt;"]]


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
    assert "0 finished runs" in report(tmp_path)
    with pytest.raises(InputError, match="folder of runs"):
        write_report_of_all(tmp_path / "none")
