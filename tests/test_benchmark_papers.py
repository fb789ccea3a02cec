import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from keras_msd.recipes import list_recipes

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def papers(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import papers

    yield papers
    sys.modules.pop("papers")


def result(papers, *seeds, start=None):
    rows = [{name: {"s": score} for name, score in one.items()} for one in seeds]
    return papers.Result("made", "results/made.json", rows, start)


@pytest.mark.parametrize(
    ("seeds", "word"),
    [
        ([(3.0, 1.0), (2.5, 1.0), (2.0, 1.2)], "holds"),
        ([(1.0, 3.0), (1.0, 2.5), (1.2, 2.0)], "does not"),
        ([(3.0, 1.0), (1.5, 1.0), (2.0, 1.9)], "cannot be told"),  # 0.9 of 1.9
        ([(1.0, 1.35), (1.0, 1.15), (1.0, 1.004)], "cannot be told"),
        ([(1.09, 1.0)] * 3, "cannot be told"),  # under the least margin
        ([(1.11, 1.0)] * 3, "holds"),
        ([(3.0, 1.0), (1.0, 1.5), (2.0, 1.9)], "cannot be told"),
        ([(3.0, 1.0)], "holds"),
        ([(2.9, 1.0)], "cannot be told"),  # under two points, one seed
        ([(1.0, 3.0)], "does not"),
    ],
)
def test_a_verdict_needs_more_than_the_seeds_differ(papers, seeds, word):
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


@pytest.mark.parametrize(
    ("start_in_s", "said"),
    [
        (4.0, "**holds**: more is better (+4.0, one seed)"),
        (5.0, "**cannot be told**: `a` is +0.0 above its start, not +0.1"),
    ],
)
def test_a_gate_in_one_score_opens_the_others(papers, start_in_s, said):
    start = {"above": "a", "below": "begun", "by": 3.0, "score": "gate"}
    scores = {"a": (5.0, 9.0), "b": (1.0, 1.0), "begun": (start_in_s, 6.0)}
    row = {name: {"s": s, "gate": gate} for name, (s, gate) in scores.items()}
    claims = [{"says": "more is better", "above": "a", "below": "b"}]
    exhibit = {"result": "made", "score": "s", "claims": claims}
    found = {"made": papers.Result("made", "results/made.json", [row], start)}
    assert papers.directions(exhibit, found) == said


@pytest.fixture
def told_apart(papers):
    """Return results that hold, deny and do not know that `a` is above `b`."""
    return {
        "one": result(papers, {"a": 5.0, "b": 1.0}),
        "other": result(papers, {"a": 1.0, "b": 5.0}),
        "none": result(papers),
    }


def test_claims_are_told_of_each_result_that_there_is(papers, told_apart):
    claims = [{"says": "a first", "above": "a", "below": "b"}]
    exhibit = {"result": "one", "score": "s", "claims": claims}
    exhibit["beside"] = {"From another start": "other", "With no seed": "none"}
    assert papers.directions(exhibit, told_apart) == (
        "**holds**: a first (+4.0, one seed). "
        "From another start: **does not**: a first (-4.0, one seed). "
        "With no seed: not yet run"
    )


def test_a_claim_may_be_decided_by_another_result(papers, told_apart):
    claim = {"says": "a first", "above": "a", "below": "b"}
    claims = [claim, claim | {"result": "other"}, claim | {"result": "none"}]
    exhibit = {"result": "one", "score": "s", "claims": claims}
    assert papers.directions(exhibit, told_apart) == (
        "**holds**: a first (+4.0, one seed); "
        "**does not**: a first (-4.0, one seed); **cannot be told**: "
        "a first (`made`, as it is now, has not been run at lab size)"
    )


def about():
    return tomllib.loads((BENCHMARKS / "papers.toml").read_text(encoding="utf-8"))


def test_the_page_is_that_of_the_recipes_and_results_there_are(papers):
    written = (BENCHMARKS / "papers.md").read_text(encoding="utf-8")
    assert written == papers.page(about()), "python benchmarks/papers.py"


def test_a_recipe_that_has_not_been_run_decides_nothing(papers):
    about = {"recipe": "made", "file": "no.json", "table": "made"}
    claims = [{"says": "more is better", "above": "a", "below": "b"}]
    exhibit = {"result": "made", "score": "s", "claims": claims}
    said = papers.directions(exhibit, {"made": papers.read_result(about)})
    assert said.startswith("**cannot be told**: `made`, as it is now, has not been run")


def test_rows_are_read_by_seed(papers, tmp_path, monkeypatch):
    monkeypatch.setattr(papers, "HERE", tmp_path)
    seeds = {str(seed): {"rows": {"a": {"s": seed}}} for seed in (0, 1)}
    (tmp_path / "results").mkdir()
    text = json.dumps({"tables": {"made": {"seeds": seeds}}})
    (tmp_path / "results/it.json").write_text(text)
    found = papers.read_result({"recipe": "r", "file": "it.json", "table": "made"})
    assert found.seeds == [{"a": {"s": 0}}, {"a": {"s": 1}}]


# What the three papers number, by the papers themselves.
EXHIBITS = {
    "Ding": {"table": 8, "figure": 3},
    "Mao": {"table": 8, "figure": 3},
    "Reimers": {"table": 8, "figure": 1},
}


def test_no_table_or_figure_of_a_paper_is_missing():
    papers = about()["papers"]
    assert len(papers) == len(EXHIBITS)
    for paper in papers:
        counts = EXHIBITS[paper["title"].split()[0]]
        wanted = [
            f"{kind} {number + 1}" for kind in counts for number in range(counts[kind])
        ]
        assert [exhibit["name"] for exhibit in paper["exhibits"]] == wanted
        written = (BENCHMARKS / "papers.md").read_text(encoding="utf-8")
        section = written.split(f"## {paper['title']}\n")[1].split("\n## ")[0]
        assert re.findall(r"^\| ((?:table|figure) \d+) \|", section, re.M) == wanted
    titles = {one["paper"] for one in list_recipes() if one["table"]} - {""}
    assert titles <= {paper["title"] for paper in papers}
