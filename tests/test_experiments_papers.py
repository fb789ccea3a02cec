"""The page of the papers: its rule, its claims, and the files that it is made from."""

import csv
import json
import sys
import tomllib
from pathlib import Path
from statistics import fmean

import pytest

from keras_msd.recipes.listing import describe
from keras_msd.recipes.load import recipe_names

ROOT = Path(__file__).parents[1]
EXPERIMENTS = ROOT / "experiments"
ORDERINGS = tomllib.loads(
    Path(__file__).with_name("paper_orderings.toml").read_text(encoding="utf-8")
)


@pytest.fixture
def papers(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    import papers

    yield papers
    for name in ("papers", "figures"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("seeds", "word"),
    [
        ([(3.0, 1.0), (2.5, 1.0), (2.0, 1.2)], "holds"),
        ([(1.0, 3.0), (1.0, 2.5), (1.2, 2.0)], "does not hold"),
        ([(3.0, 1.0), (1.5, 1.0), (2.0, 1.9)], "cannot be told"),  # 0.9 of 1.9
        ([(1.0, 1.35), (1.0, 1.15), (1.0, 1.004)], "cannot be told"),
        ([(1.09, 1.0)] * 3, "cannot be told"),  # under the least margin
        ([(1.11, 1.0)] * 3, "holds"),
        ([(3.0, 1.0), (1.0, 1.5), (2.0, 1.9)], "cannot be told"),
        ([(3.0, 1.0)], "holds"),
        ([(2.9, 1.0)], "cannot be told"),  # under two points, one seed
        ([(1.0, 3.0)], "does not hold"),
    ],
)
def test_a_verdict_needs_more_than_the_seeds_differ(papers, seeds, word):
    upper, lower = (papers.Row(list(it), -9.0) for it in zip(*seeds, strict=True))
    assert papers.verdict(upper, lower)[0] == word


def test_a_share_of_the_lower_row(papers):
    upper, lower = papers.Row([60.0] * 3, 0.0), papers.Row([61.0] * 3, 0.0)
    assert papers.verdict(upper, lower, share=0.98)[0] == "holds"


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"scores": []}, "was not measured"),
        ({"start": None}, "has no recorded start"),
        ({"start": None, "trained": False}, ""),
        ({"start": 4.95}, "is not above its start"),  # under the least margin
        ({"start": 9.0, "trained": False}, ""),
        ({"ends": {"teach_student": [44.0, 42.0, 43.0]}}, ""),  # two points
        ({"ends": {"teach_student": [44.01, 42.0, 43.0]}}, "is unstable between seeds"),
    ],
)
def test_each_row_must_be_measured_taught_and_stable(papers, which, fields, why):
    rows = [papers.Row([9.0] * 3, 0.0), papers.Row([1.0] * 3, 0.0)]
    rows[which] = papers.Row(**{"scores": [5.0] * 3, "start": 4.0} | fields)
    told = f"{('first', 'second')[which]} row {why}" if why else ""
    wanted = ("cannot be told", told) if why else ("holds", "")
    assert papers.verdict(*rows) == wanted


@pytest.mark.parametrize(
    ("rises", "told"),
    [
        ([0.2, 0.1, 0.3], False),
        ([0.2, -0.1, 0.5], True),  # not in every seed
        ([0.1, 0.1, 0.1], True),  # under the least margin
    ],
)
def test_a_lower_row_that_still_rises_may_pass_the_other(papers, rises, told):
    high = papers.Row([9.0] * 3, 0.0, rises=[0.5] * 3)  # it goes away from the other
    low = papers.Row([1.0] * 3, 0.0, rises=rises)
    found = [papers.verdict(high, low), papers.verdict(low, high)]
    wanted = [("holds", ""), ("does not hold", "")]
    if not told:
        why = (f"{it} row is below and still rises" for it in ("second", "first"))
        wanted = [("cannot be told", it) for it in why]
    assert found == wanted


def scores_of(part, model):
    """Return the scores of a row by seed, read from the file."""
    path = EXPERIMENTS / "results" / part.get("file", "ablations.json")
    tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
    table, last = (
        part.get("row_tables", {}).get(model, part["table"]),
        part.get("after", {}),
    )
    seeds = tables[table]["seeds"].values()
    if model in last and part["score"] == "cross_lingual":
        return [it["ends"][last[model]] for it in seeds]
    if model in last:
        model = f"student, {last[model]}"
    return [it["rows"][model][part["score"]] for it in seeds]


def parts(papers):
    """Yield each part of the page with its citation and its exhibit."""
    for paper in papers.load()["papers"]:
        for exhibit in paper["exhibits"]:
            for part in papers.parts_of(exhibit):
                yield paper["citation"], exhibit, part


def test_every_verdict_has_the_sign_of_the_scores_in_the_files(papers):
    told = 0
    for citation, _, part in parts(papers):
        found = papers.claims_of(citation, part)
        for text, claim in zip(part["claims"], found, strict=True):
            if claim.verdict == "cannot be told":
                continue
            upper, lower, share = papers.claim_in(text)
            high, low = (fmean(scores_of(part, it)) for it in (upper, lower))
            assert (high > share * low) == (claim.verdict == "holds"), claim
            told += 1
    assert told > 20


def test_the_page_and_the_figures_are_those_of_the_files(papers):
    written = (EXPERIMENTS / "papers.md").read_text(encoding="utf-8")
    assert written == papers.page(papers.load()), "python experiments/papers.py"
    import figures

    for name in figures.exhibits():
        drawn = (EXPERIMENTS / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert figures.said(figures.points(name)) in drawn, "experiments/figures.py"


# Recipe and model, and the averages in its row of the paper, by hand.
with open(ROOT / "tests/golden/ding2022_rows.tsv", encoding="utf-8") as file:
    DING = list(csv.DictReader(file, delimiter="\t"))


def row_of(recipe, model):
    """Return what row of which tables a model of a recipe is."""
    about = describe(recipe)
    return about.rows[model] if model else about


@pytest.mark.parametrize("table", ["1 and 2", "3 and 4", "5", "6", "7 and 8"])
def test_printed_averages(papers, table):
    rows = [row for row in DING if row["table"] == table]
    assert len(rows) >= 5
    for row in rows:
        own = row_of(row["recipe"], row["model"])
        assert table in own.table.split("; "), row
        name = "CE" if own.row.startswith("CE") else own.row
        part = {"score": row["score"], "rows": {"a": name}}
        assert papers.printed("ding2022", part, "a") == float(row["printed"]), row


def printed_rows(papers, citation):
    """Yield table, row and scores of a file of published numbers."""
    about = papers.published(citation)
    for block in about["tables"]:
        columns = block.get("columns", about["columns"])
        for name, scores in block["rows"].items():
            numbers = dict(zip(columns, scores, strict=True))
            for table in block["table"].split("; "):
                yield table, name, numbers


@pytest.mark.parametrize("citation", ["ding2022", "mao2023"])
def test_every_printed_row_is_of_some_recipe(papers, citation):
    abouts = [describe(name) for name in recipe_names()]
    named = [
        (row.table.split("; "), row.row)
        for about in abouts
        for row in about.rows.values() or [about]
    ]
    found = [(table, row) for table, row, _ in printed_rows(papers, citation)]
    assert len(found) == len(set(found)) > 40
    for table, row in found:
        known = [name for tables, name in named if table in tables]
        assert row in known or row == "CE" and "CE, equation 9" in known, (table, row)


def orderings():
    """Yield citation, exhibit, above, below, share, score, whether the page has it."""
    for citation, blocks in ORDERINGS.items():
        for block in blocks:
            for order in block["orders"]:
                for place, name in enumerate(block.get("of", [""])):
                    share = order.get("share", 1.0)
                    share = share[place] if isinstance(share, list) else share
                    short = name.partition(": ")[2]
                    for score in block.get("scores") or [order["score"]]:
                        yield (
                            citation,
                            block["exhibit"],
                            order["above"].replace("{}", name).format(short=short),
                            order["below"].replace("{}", name).format(short=short),
                            share,
                            score,
                            place == 0,
                        )


def test_the_listed_orderings_are_in_the_printed_numbers(papers):
    """Printed averages are rounded, hence a tenth of a point; curves have none."""
    for citation, exhibit, above, below, share, score, _ in orderings():
        part = {"score": score, "rows": {"a": above, "b": below}}
        high, low = (papers.printed(citation, part, it) for it in "ab")
        if exhibit[0] in ("figure 1", "figure 3") and citation == "ding2022":
            assert None in (high, low)
        else:
            assert high > share * low - 0.1, (exhibit, above, below)


def test_no_ordering_of_a_paper_is_missing_on_the_page(papers):
    on_page = {
        (citation, tuple(exhibit["names"]), *names, share, part["score"])
        for citation, exhibit, part in parts(papers)
        for upper, lower, share in map(papers.claim_in, part["claims"])
        for names in [
            [part.get("printed", {}).get(it, part["rows"][it]) for it in (upper, lower)]
        ]
    }
    for citation, exhibit, above, below, share, score, wanted in orderings():
        if wanted:
            claim = (citation, tuple(exhibit), above, below, share, score)
            assert claim in on_page


def test_every_row_of_the_page_is_in_its_result(papers):
    """A row that a name misses would read as one that was not measured."""
    for _, _, part in parts(papers):
        if part.get("table"):
            for model in part["rows"].keys() - part.get("absent", {}).keys():
                assert scores_of(part, model), model
