import re
import sys
import tomllib
from pathlib import Path

import pytest

from keras_msd.recipes import list_recipes
from keras_msd.recipes.schema.folders import recipe_folder

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def papers(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import papers

    yield papers
    sys.modules.pop("papers")


def result(papers, *seeds, start=None):
    rows = [{name: {"s": score} for name, score in one.items()} for one in seeds]
    return papers.Result("results/made.json", rows, start)


@pytest.mark.parametrize(
    ("seeds", "word"),
    [
        ([(3.0, 1.0), (1.5, 1.0), (2.0, 1.9)], "holds"),
        ([(1.0, 3.0), (1.0, 1.5), (1.9, 2.0)], "does not"),
        ([(3.0, 1.0), (1.0, 1.5), (2.0, 1.9)], "cannot be told"),
        ([(3.0, 1.0)], "holds"),
        ([(2.9, 1.0)], "cannot be told"),  # under two points, one seed
        ([(1.0, 3.0)], "does not"),
    ],
)
def test_a_verdict_needs_every_seed(papers, seeds, word):
    found = result(papers, *({"a": a, "b": b} for a, b in seeds))
    assert papers.verdict(found, "s", {"above": "a", "below": "b"})[0] == word


def test_a_share_of_the_lower_row(papers):
    found = result(papers, *[{"a": 60.0, "b": 61.0}] * 3)
    claim = {"above": "a", "below": "b"}
    assert papers.verdict(found, "s", claim) == ("does not", "-1.0 to -1.0")
    assert papers.verdict(found, "s", claim | {"share": 0.98})[0] == "holds"


def test_rows_that_are_missing_decide_nothing(papers):
    found = result(papers, {"a": 9.0})
    claim = {"above": "a", "below": "b"}
    assert papers.verdict(found, "s", claim) == ("cannot be told", "no s of `b`")


@pytest.mark.parametrize(
    ("begun", "said"),
    [
        (1.0, "**holds**: more is better (+4.0, one seed)"),
        (3.0, "**cannot be told**: `a` is +2.0 above its start, not +3.0"),
        (None, "**cannot be told**: no s of `begun`, where training began"),
    ],
)
def test_models_that_learnt_nothing_are_not_compared(papers, begun, said):
    start = {"above": "a", "below": "begun", "by": 3.0}
    row = {"a": 5.0, "b": 1.0} | ({} if begun is None else {"begun": begun})
    claims = [{"says": "more is better", "above": "a", "below": "b"}]
    exhibit = {"result": "made", "score": "s", "claims": claims}
    found = {"made": result(papers, row, start=start)}
    assert papers.directions(exhibit, found) == said


def about():
    return tomllib.loads((BENCHMARKS / "papers.toml").read_text(encoding="utf-8"))


def test_the_page_is_that_of_the_recipes_and_results_there_are(papers):
    written = (BENCHMARKS / "papers.md").read_text(encoding="utf-8")
    assert written == papers.page(about()), "python benchmarks/papers.py"


def test_no_table_of_a_paper_is_missing():
    listed = {
        paper["title"]: {exhibit["name"] for exhibit in paper["exhibits"]}
        for paper in about()["papers"]
    }
    for file in (recipe_folder() / "published").glob("*.toml"):
        paper = tomllib.loads(file.read_text(encoding="utf-8"))
        named = "; ".join(table["table"] for table in paper["tables"])
        tables = set(re.findall(r"figure \d+", named))
        numbers = re.findall(r"\d+", re.sub(r"figure \d+", "", named))
        assert listed[paper["paper"]] >= tables | {f"table {one}" for one in numbers}
    assert {one["paper"] for one in list_recipes() if one["table"]} - {""} <= {*listed}
