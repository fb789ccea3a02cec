"""Numbers in README.md and experiments/README.md are those of committed files."""

import json
import re
from pathlib import Path
from statistics import fmean

import pytest
from command_line import run

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXPERIMENTS = (ROOT / "experiments/README.md").read_text(encoding="utf-8")
SCORES = "cross_lingual", "monolingual", "retrieval"


def read(name):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def rows_of(name):
    return {row["name"]: row for row in read(f"{name}/scores.json")["rows"]}


def section(page, heading):
    return page.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def table(text):
    """Return the cells of the rows of a Markdown table by their first one."""
    lines = [
        [cell.strip() for cell in line.strip("|\n ").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]
    return {cells[0]: cells[1:] for cells in lines[1:]}


def scores(row, keys=SCORES):
    return [f"{row[key]:.1f}" for key in keys]


def millions(row):
    return f"{row['parameters'] / 1e6:.1f}M"


def test_the_lab_table_is_that_of_its_run():
    rows = rows_of("msd_lab")
    cells = table(section(EXPERIMENTS, "Results on real corpora"))
    wanted = {
        "ridge baseline": "closed form",
        "assistant, grown from the teacher": "assistant",
        "student, 1 layer run six times, width 256 (60% fewer)": (
            "student, contrastive_learning"
        ),
        "student, 1 layer run six times, width 90 (80% fewer)": (
            "student_small, contrastive_learning"
        ),
    }
    for label, name in wanted.items():
        row = rows[name]
        size = [millions(row), f"{row['bytes'] / 1e6:.1f}"]
        assert cells[label] == [*size, *scores(row)], label
        if "fewer" in label:
            whole = rows["assistant"]["parameters"]
            assert f"({1 - row['parameters'] / whole:.0%} fewer)" in label
    text = " ".join(section(EXPERIMENTS, "Results on real corpora").split())
    kept = read("msd_lab/scores.json")["measured"]
    wide, small = (f"{kept[f'kept_{it}']:.1f}" for it in ("student", "student_small"))
    assert f"students reach {wide} % and {small} % of the assistant's" in text
    assert f"scores {rows['teacher']['monolingual']:.1f} on English" in text
    minutes = read("msd_lab/timings.json")["seconds"] / 60
    assert f"It took {minutes:.1f} minutes" in text
    words = rows_of("msd_lab_words")
    alone = [
        f"{words[f'{it}, contrastive_learning']['cross_lingual']:.1f}"
        for it in ("student", "student_small")
    ]
    assert f"tables of these two students score {alone[0]} and {alone[1]}" in text


def test_shares_of_the_assistant_are_those_of_the_runs():
    """Whose start it is, is said: what has the paper's start, and what has ours."""
    tables = read("ablations.json")["tables"]
    faithful, ordered = (
        tables[f"msd_{it}"]["seeds"]["0"]["rows"] for it in ("faithful", "tradeoffs")
    )
    whole = faithful["assistant"]
    assert ordered["assistant"] == whole
    cells = list(table(section(EXPERIMENTS, "Results on real corpora")).items())
    # The second table of the section: its head is a row of the first one's.
    shares = [(label, it) for label, it in cells if it[-1].endswith("fewer")]
    rows = [faithful[f"student{it}"] for it in ("", "_ru2", "_cut58")]
    narrow = [it for it in re.findall(r"\| the same, narrower \| .*", EXPERIMENTS)]
    for (label, found), row in zip(
        [it for it in shares if it[0] != "the same, narrower"],
        [*rows, ordered["student"]],
        strict=True,
    ):
        fewer = f"{100 - 100 * row['parameters'] / whole['parameters']:.0f} %"
        kept = f"{100 * row['cross_lingual'] / whole['cross_lingual']:.1f} %"
        assert found[:2] == [fewer, kept], label
    for line, row in zip(
        narrow, (faithful["student_cut80"], ordered["student_cut80"]), strict=True
    ):
        fewer = f"{100 - 100 * row['parameters'] / whole['parameters']:.1f} %"
        kept = f"{100 * row['cross_lingual'] / whole['cross_lingual']:.1f} %"
        assert f"| {fewer} | {kept} |" in line
    starts = {"msd_faithful": "standard_normal", "msd_tradeoffs": "ordered"}
    from keras_msd.recipes import load_recipe

    for name, start in starts.items():
        student = load_recipe(name, "lab").student
        assert student.start == start
    students = load_recipe("msd_faithful", "lab").student.each()
    cut = [students[f"student_cut{it}"].start for it in (58, 80)]
    assert cut == ["svd", "svd"]
    assert "as printed" in shares[0][0] and "SVD start" in shares[2][0]


@pytest.mark.parametrize(
    ("name", "quantize"), [("small12", "int4"), ("tiny12", "int8")]
)
def test_scores_are_those_of_the_committed_file(name, quantize):
    result = json.loads((ROOT / "benchmarks/results/pareto.json").read_text())
    assert result["part"] == "report"
    format_ = f"litert_text {quantize}"
    rows = [it for it in result["ours"] if it["name"] == name]
    (row,) = (it for it in rows if it["format"] == format_)
    found = [f"{row[key]:.1f}" for key in ("cross", "within", "english", "tatoeba")]
    for page in ("README.md", f"packages/{name}/README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert f"| {row['bytes']:,} | {' | '.join(found)} |" in text, page
    assert f"{row['ms']:.2g} ms" in README


def test_the_search_answers_as_printed(capsys):
    command, printed = README.split("keras-msd search tiny12 ")[1].split("```")[::2][:2]
    query, sentences = command.split('"')[1], command.split('"')[2].split()[0]
    encoder = ROOT / "packages/tiny12/keras_msd_tiny12/encoder"
    words = ("search", str(encoder), query, str(ROOT / sentences), "--top", "4")
    code, out, _ = run(capsys, *words)
    assert code == 0
    rows = [line.split() for line in out.splitlines() if line.strip()]
    assert rows == [line.split() for line in printed.splitlines()[1:]]


def test_pages_say_that_tatoeba_is_in_the_training_data():
    for text in (README, EXPERIMENTS):
        assert "in-domain" in text


def test_a_body_and_its_table_have_the_scores_of_their_runs():
    cells = section(EXPERIMENTS, "Is a body worth its parameters?")
    found = [it for it in cells.splitlines() if it.startswith("| ")][1:]
    lab, words = rows_of("msd_lab"), rows_of("msd_lab_words")
    wanted = [
        row
        for name in ("student", "student_small")
        for row in (
            lab[f"{name}, contrastive_learning"],
            lab[f"{name}, branch alone"],
            words[f"{name}, branch alone"],
        )
    ]
    for line, row in zip(found, wanted, strict=True):
        assert line.endswith(f"| {' | '.join([millions(row), *scores(row)])} |")


def test_scores_of_the_assistants_are_those_of_their_files():
    cells = list(table(section(EXPERIMENTS, "The assistants")).values())
    keys = ("cross_lingual", "monolingual", "english", "retrieval")
    wide, narrow = (
        read(f"{it}/reported.json") for it in ("msd_assistant", "msd_assistant_narrow")
    )
    wanted = [
        wide["closed form"],
        *(of[it] for of in (wide, narrow) for it in ("before training", "trained")),
    ]
    for found, row in zip(cells, wanted, strict=True):
        # The file has two digits, so that one more rounding may be off by a tenth.
        for cell, key in zip(found, keys, strict=True):
            assert abs(float(cell) - row[key]) < 0.0501
    rates = read("msd_assistant_narrow/stage_1.json")["rates"]
    text = " ".join(section(EXPERIMENTS, "The assistants").split())
    before = rates["1e-4"]["before"]["cross_lingual"]
    after = [rates[it]["after"]["cross_lingual"] for it in ("1e-4", "5e-4")]
    assert f"from {before:.1f} across languages to {after[0]:.1f} at" in text
    assert f"to {after[1]:.1f} at 5e-4" in text


def test_the_student_of_the_backbone_has_the_scores_of_its_run():
    rows = rows_of("msd_backbone")
    about = section(EXPERIMENTS, "An assistant from e5-small")
    cells = table(about.split("### Its student")[1].split("###")[0])
    for label, name in {
        "assistant": "assistant",
        "student, SVD start": "student, SVD start",
        "after stage 2, 200 steps": "student, align_embedding",
        "after stage 3, 2,000 steps": "student, teach_student",
    }.items():
        row, found = rows[name], [*cells[label], ""]  # a last empty cell is cut off
        size, across, within, english, tatoeba = found[:5]
        assert size == millions(row), label
        assert across == f"{row['cross_lingual']:.1f}"
        assert english == f"{row['tracks']['en']:.1f}"
        for cell, key in ((within, "monolingual"), (tatoeba, "retrieval")):
            assert cell == (f"{row[key]:.1f}" if key in row else ""), label
    kept = read("msd_backbone/scores.json")["measured"]["kept_student"]
    assert f"It keeps {kept:.1f} % of the" in about
    assert f"keeps {kept:.0f} % of its assistant's" in " ".join(README.split())
    minutes = read("msd_backbone/timings.json")["seconds"] / 60
    assert f"takes {minutes:.0f} minutes on two cores" in README


def test_scores_of_tiny12s_variants_are_those_of_the_file():
    cells = table(section(EXPERIMENTS, "tiny12").split("<details")[0])
    found = read("tiny12.json")["seeds"]["0"]
    keys = ("cross_lingual", "monolingual", "english", "retrieval")
    wanted = {
        "the recipe, weights by frequency": found["the recipe"]["weighted"],
        "the recipe, as trained": found["the recipe"]["scores"],
        "32,000 pieces, 3,000 steps": found["3,000 updates"]["scores"],
        "32,000 pieces, 600 steps (commit f8d4e90)": (
            found["600 updates, at commit f8d4e90"]["scores"]
        ),
        "600 steps, only softmax": found["600 updates, softmax alone"]["scores"],
        "3 layers on the 3,000-step table, weighted and frozen": (
            found["a body of three layers, the table stays"]["scores"]
        ),
        "the same layers, all trained": (
            found["a body of three layers, all trained"]["scores"]
        ),
    }
    assert cells.keys() == wanted.keys()
    for label, row in wanted.items():
        for cell, key in zip(cells[label], keys, strict=True):
            assert abs(float(cell) - row[key]) < 0.0501, label


def test_a_smaller_vocabulary_and_fine_tuning_have_the_scores_of_their_runs():
    cells = list(table(section(EXPERIMENTS, "A smaller vocabulary")).values())
    rows = rows_of("msd_trim")
    names = ("", ", trimmed, used", ", trimmed, p99", ", trimmed, p95")
    for found, name in zip(cells, names, strict=True):
        row = rows[f"assistant{name}"]
        assert found == [millions(row), *scores(row)]
    cells = list(table(section(EXPERIMENTS, "Fine-tuning on STS scores")).values())
    rows = rows_of("xkd_lab")
    before, after = rows["assistant before STS"], rows["assistant"]
    assert cells == [scores(before), scores(after)]
    gain = after["monolingual"] - before["monolingual"]
    assert f"{gain:.1f} points within languages" in EXPERIMENTS


def test_figures_of_the_papers_page_that_notes_repeat_are_those_of_the_files():
    tables = read("ablations.json")["tables"]
    page = (ROOT / "experiments/papers.md").read_text(encoding="utf-8")
    page = " ".join(page.split())
    backbone = read("ablations_backbone.json")["tables"]
    seeds = [it["rows"] for it in backbone["msd_stages, SVD starts"]["seeds"].values()]
    within, across = (
        fmean(it["student_stage123"][key] - it["student"][key] for it in seeds)
        for key in ("monolingual", "cross_lingual")
    )
    assert f"(−{within:.1f} points within languages, −{across:.1f} across)" in page
    faithful = tables["msd_faithful"]
    begun = faithful["starts"]["assistant"]["cross_lingual"]
    ended = faithful["seeds"]["0"]["rows"]["assistant"]["cross_lingual"]
    assert f"stage 1 lowered its score from {begun:.1f} to {ended:.1f}" in EXPERIMENTS
    sizes = backbone["msd_sizes"]["seeds"].values()
    kept = [
        100 * fmean(it["rows"][name]["cross_lingual"] for it in sizes)
        / fmean(it["rows"]["assistant"]["cross_lingual"] for it in sizes)
        for name in ("student_ru12", "student_b128")
    ]  # fmt: skip
    assert f"all twelve layers keep {kept[0]:.1f} %" in page
    assert f"three layers run four times {kept[1]:.1f} %" in page
    assert f"keep {kept[0]:.0f} % of its cross-lingual score" in README
    assert f"and {kept[1]:.0f} % with three" in README
    widths = tables["lealla_dimensions"]["seeds"].values()
    wide, *narrow = (
        fmean(it["rows"][f"reduced_{width}"]["retrieval"] for it in widths)
        for width in (128, 64, 32)
    )
    lost = [f"{wide - score:.1f}" for score in narrow]
    assert f"64 dimensions score {lost[0]} points lower on Tatoeba than 128" in page
    assert f"and 32 score {lost[1]} lower" in page
    layers = backbone["msd_layers"]
    ended, begun = layers["seeds"]["0"]["rows"], layers["starts"]
    said = [
        f"{found[name]['cross_lingual']:.1f}"
        for name in ("student", "student_l6", "student_l4", "student_l1")
        for found in (begun, ended)
    ]
    assert (
        "takes twelve layers from {} to {} across languages and the first six from {} "
        "to {}. The first four fall from {} to {}, a single one from {} to {}."
    ).format(*said) in " ".join(EXPERIMENTS.split())
    bias = read("bias.json")["tables"]["bias"]["seeds"].values()
    raw, taught = ([seed["rows"][it] for seed in bias] for it in ("raw", "x-kd"))
    means = [fmean(it[key] for it in rows) for rows in (raw, taught)
             for key in ("bias", "pooled")]  # fmt: skip
    assert f"({means[0]:.1f} to {means[2]:.1f})" in page
    assert f"({means[1]:.1f} to {means[3]:.1f})" in page


def test_shares_by_the_layers_that_a_student_gets_are_those_of_the_file():
    tables = read("ablations_backbone.json")["tables"]
    rows = tables["msd_tradeoffs"]["seeds"]["0"]["rows"]
    whole = rows["assistant"]["cross_lingual"]
    text = " ".join(EXPERIMENTS.split())
    for names, said in (
        (
            ("student", "student_last", "student_first"),
            "keep {} % if they are every second one, {} % if the last and {} % "
            "if the first",
        ),
        (
            ("student_last80", "student_cut80", "student_first80"),
            "the last three keep {} %, every fourth one {} % and the first three {} %",
        ),
    ):
        kept = [f"{100 * rows[it]['cross_lingual'] / whole:.1f}" for it in names]
        assert said.format(*kept) in text


def test_the_demo_prints_what_the_page_says():
    """The rows and the seconds are those of a run whose files are kept."""
    rows, text = rows_of("demo"), section(README, "Run the demo")
    printed = [line for line in text.splitlines() if re.search(r"\d{3},\d{3}  ", line)]
    assert len(printed) == 3
    for line in printed:
        name, *cells = re.split(r"\s{2,}", line.strip())
        row = rows[name]
        sizes = [f"{row[key]:,}" for key in ("parameters", "bytes", "table_bytes")]
        keys = "cross_lingual", "monolingual", "held_out"
        assert cells == [*sizes, *scores(row, keys)], name
    seconds = read("demo/timings.json")["seconds"]
    assert f"This took {seconds:.0f} seconds" in text
