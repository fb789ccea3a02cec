"""Numbers in the documents stand in committed files."""

import json
from pathlib import Path
from statistics import fmean

import pytest
from command_line import run

ROOT = Path(__file__).parents[1]
EARLIER = ROOT / "benchmarks/results/earlier"


def test_tables_of_arms_are_those_of_the_committed_file():
    """Each row has the means over the seeds, as benchmarks/README.md says them."""
    tables = json.loads((EARLIER.parent / "ablations.json").read_text())["tables"]
    page = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    section = page.split("\n## Contrastive learning, recurrence")[1].split("\n## ")[0]
    keys, count = ("cross_lingual", "monolingual"), 0
    for name, part in zip(
        ("msd_ablations", "msd_sizes"), section.split("\nTables 7 and 8"), strict=True
    ):
        seeds = list(tables[name]["seeds"].values())
        assert ("one seed" in part.split("\n|")[0]) == (len(seeds) == 1)
        for row in seeds[0]["rows"]:
            if row.startswith("student"):
                means = [fmean(it["rows"][row][key] for it in seeds) for key in keys]
                assert f"| {means[0]:.1f} | {means[1]:.1f} |" in part, row
                count += 1
    assert count == 12


STAGES = "Which stages a student needs"
PRINTED = "Contrastive learning, recurrence, sizes"
LEALLA = "LEALLA's losses"
KEYS = "retrieval", "cross_lingual", "monolingual"


@pytest.mark.parametrize(
    ("heading", "file", "table", "keys", "seeds", "rows"),
    [
        (STAGES, "stages", "random", KEYS[1:], 3, 6),
        (STAGES, "stages", "closed form", KEYS[1:], 3, 6),
        (LEALLA, "ablations", "lealla_lab", KEYS, 3, 7),
        (LEALLA, "ablations", "lealla_lab, multilingual teacher", KEYS, 3, 7),
        (LEALLA, "ablations", "lealla_search", KEYS, 1, 12),
        (LEALLA, "ablations", "lealla_dimensions, multilingual teacher", KEYS, 3, 5),
        (PRINTED, "ablations", "msd_faithful", (*KEYS[1:], KEYS[0]), 1, 5),
        (PRINTED, "ablations", "msd_tradeoffs", (*KEYS[1:], KEYS[0]), 1, 2),
    ],
)
def test_rows_have_the_numbers_of_their_file(heading, file, table, keys, seeds, rows):
    """Means, and half the range where there are several seeds."""
    result = json.loads((EARLIER.parent / f"{file}.json").read_text())
    page = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {heading}")[1].split("\n## ")[0]
    runs = [it["rows"] for it in result["tables"][table]["seeds"].values()]
    students = [row for row in runs[0] if row.startswith(("student", "reduced_"))]
    assert (len(runs), len(students)) == (seeds, rows)
    for row in students:
        cells = []
        for key in keys:
            values = [run[row][key] for run in runs]
            half = (max(values) - min(values)) / 2
            spread = f" ± {half:.1f}" if len(runs) > 1 else ""
            cells.append(f"{fmean(values):.1f}{spread}")
        assert f"| {' | '.join(cells)} |" in section, row


def test_arms_that_learnt_nothing_are_said_to_order_nothing():
    """Only what beat the closed form of its own width is evidence of an order."""
    tables = json.loads((EARLIER.parent / "stages.json").read_text())["tables"]
    page = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {STAGES}")[1].split("\n## ")[0]
    below = {
        start: {
            row
            for seed in tables[start]["seeds"].values()
            for row, scores in seed["rows"].items()
            if row.startswith("student")
            and scores["cross_lingual"]
            < seed["rows"]["closed form, B 64"]["cross_lingual"] + 5
        }
        for start in ("random", "closed form")
    }
    assert len(below["random"]) == 6 and "random starts order nothing" in section
    assert below["closed form"] == {"student_stage12"}
    assert "each arm but stage 1+2" in section


def test_shares_that_the_readme_says_are_those_of_the_files():
    table = json.loads((EARLIER.parent / "ablations.json").read_text())["tables"]
    faithful, ordered = (
        table[f"msd_{it}"]["seeds"]["0"]["rows"] for it in ("faithful", "tradeoffs")
    )
    whole = faithful["assistant"]["cross_lingual"]
    assert ordered["assistant"]["cross_lingual"] == whole
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    kept = [
        f"{row['cross_lingual'] / whole:.1%}"
        for row in (
            *(faithful[f"student_{it}"] for it in ("cut58", "cut80")),
            *(ordered[it] for it in ("student", "student_cut80")),
        )
    ]
    assert f"keep {kept[0]} at 58% fewer parameters and {kept[1]} at 80.6%" in text
    assert f"(`msd_tradeoffs`, one seed) {kept[2]} and {kept[3]}" in text
    rates = json.loads((EARLIER.parent / "msd_faithful/rates.json").read_text())
    students = rates["msd_tradeoffs in stage 3"]["students"].values()
    after = [it["cross_lingual"][-1] for it in students]
    page = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    assert f"after stage 3 they had {after[0]:.1f} and {after[1]:.1f}" in page
    shares = [f"{100 * it / whole:.1f}" for it in after]
    assert f"which is {shares[0]} and {shares[1]} %" in page


def test_what_stage_3_cost_is_said_as_measured():
    results = json.loads((ROOT / "benchmarks/results/msd_lab/scores.json").read_text())
    assert results["published"] == {}  # a recipe of our own
    rows = {row["name"]: row.get("cross_lingual") for row in results["rows"]}
    before, after = (
        rows[f"student, {it}"] for it in ("align_embedding", "teach_student")
    )
    text = " ".join((ROOT / "benchmarks/README.md").read_text(encoding="utf-8").split())
    assert f"{before - after:.1f} ({before:.2f} to {after:.2f})" in text


def test_scores_of_tiny12_are_those_of_the_committed_file():
    result = json.loads((ROOT / "benchmarks/results/pareto.json").read_text())
    assert result["part"] == "report"
    row = next(it for it in result["ours"] if it["format"] == "litert_text int8")
    scores = [f"{row[key]:.1f}" for key in ("cross", "within", "english", "tatoeba")]
    for page in ("README.md", "packages/tiny12/README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert f"| {row['bytes']:,} | {' | '.join(scores)} |" in text, page
    assert f"takes {row['ms']:.2g} ms a sentence" in (ROOT / "README.md").read_text()


def test_the_search_answers_as_printed(capsys):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    command, printed = page.split("keras-msd search tiny12 ")[1].split("```")[::2][:2]
    query, sentences = command.split('"')[1], command.split('"')[2].split()[0]
    encoder = ROOT / "packages/tiny12/keras_msd_tiny12/encoder"
    words = ("search", str(encoder), query, str(ROOT / sentences), "--top", "4")
    code, out, _ = run(capsys, *words)
    assert code == 0
    rows = [line.split() for line in out.splitlines() if line.strip()]
    assert rows == [line.split() for line in printed.splitlines()[1:]]


def test_lab_results_say_what_they_are_scored_on():
    of_lab = (ROOT / "README.md").read_text("utf-8").split("## Results on real corp")[1]
    page = (ROOT / "benchmarks/README.md").read_text("utf-8")
    titles = (
        "The lab recipe",
        "LEALLA's losses",
        "Multilingual knowledge distillation",
    )
    sections = [of_lab] + [page.split(f"\n## {title}")[1] for title in titles]
    for section in sections:
        said = section.split("\n## ")[0]
        assert "in-domain" in said and ("chosen on" in said or "also chose" in said)
