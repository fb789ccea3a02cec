"""Numbers on the pages are those of committed files."""

import json
import re
import tomllib
from pathlib import Path
from statistics import fmean

import pytest
from command_line import run

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXPERIMENTS = (ROOT / "experiments/README.md").read_text(encoding="utf-8")
SCORES = "cross_lingual", "monolingual", "retrieval"
FOUR = "cross_lingual", "monolingual", "english", "retrieval"


def read(name):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


BACKBONE = read("ablations_backbone.json")["tables"]
STAGES = "msd_stages, SVD starts"
UNCUT = "small12 with the tokens of e5-small"


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


@pytest.mark.parametrize(
    ("name", "quantize"), [("small12", "int4"), ("mini12", "int4"), ("tiny12", "int8")]
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
    if row["ms"]:  # of the page's processor
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
        row = rows[name] | {"english": rows[name]["tracks"]["en"]}
        wanted = [f"{row[key]:.1f}" if key in row else "" for key in FOUR]
        size = f"{row['parameters'] / 1e6:.1f}M"
        found = [*cells[label], ""][:5]  # a last empty cell is cut off
        assert found == [size, *wanted], label


def test_scores_of_tiny12s_variants_are_those_of_the_file():
    cells = table(section(EXPERIMENTS, "tiny12").split("<details")[0])
    found = read("tiny12.json")["seeds"]["0"]
    wanted = {
        "the recipe, weights by frequency": found["the recipe"]["weighted"],
        "the recipe, as trained": found["the recipe"]["scores"],
        "32,000 pieces, 3,000 steps": found["3,000 updates"]["scores"],
        "32,000 pieces, 600 steps (commit f8d4e90)": (
            found["600 updates, at commit f8d4e90"]["scores"]
        ),
        "600 steps, only softmax": found["600 updates, softmax alone"]["scores"],
    }
    assert cells.keys() == wanted.keys()
    for label, row in wanted.items():
        for cell, key in zip(cells[label], FOUR, strict=True):
            assert abs(float(cell) - row[key]) < 0.0501, label


def test_fine_tuning_has_the_scores_of_its_run():
    cells = list(table(section(EXPERIMENTS, "Fine-tuning on STS scores")).values())
    rows = rows_of("xkd_lab")
    before, after = rows["assistant before STS"], rows["assistant"]
    assert cells == [scores(before), scores(after)]


def differences(table, upper, lower, key="cross_lingual"):
    """Return by seed how far a row of a table is above another one."""
    rows = [it["rows"] for it in BACKBONE[table]["seeds"].values()]
    return [it[upper][key] - it[lower][key] for it in rows]


def span(found):
    """Return the least and the largest of some numbers of one sign, without it."""
    assert len({it > 0 for it in found}) == 1, found
    sizes = [abs(it) for it in found]
    return f"{min(sizes):.1f} to {max(sizes):.1f}"


def share_of(name):
    """Return what a student of small12 keeps, and how many parameters it lost, in %."""
    seeds = [it["rows"] for it in BACKBONE["msd_sizes"]["seeds"].values()]
    own, whole = (
        fmean(it[row]["cross_lingual"] for it in seeds) for row in (name, "assistant")
    )
    sizes = [seeds[0][row]["parameters"] for row in (name, "assistant")]
    return 100 * own / whole, 100 - 100 * sizes[0] / sizes[1]


def published(row):
    """Return what a student of the paper's MiniLM keeps, and how many parameters."""
    path = ROOT / "experiments/published/ding2022.toml"
    about = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = {k: v for it in about["tables"] for k, v in it["rows"].items()}
    name = "MiniLM <- SBERT-paraphrases"
    own, whole = rows[f"{name}, bottleneck 128, {row}"], rows[name]
    return 100 * own[1] / whole[1], 100 - 100 * sum(own[-2:]) / sum(whole[-2:])


def test_numbers_of_the_summaries_are_those_of_the_files():
    """Whatever the words around them."""
    (twelve, less), (three, least) = map(share_of, ("student_ru12", "student_b128"))
    theirs = [number for row in ("RU 12", "RU 3") for number in published(row)]
    added = [it["ends"] for it in BACKBONE[STAGES]["seeds"].values()]
    stage_4 = span([it["contrastive_learning"] - it["teach_student"] for it in added])
    single, fewer = (
        abs(fmean(differences(STAGES, "student", name)))
        for name in ("student_single", "student_stage123")
    )
    learnt = README.split("What we have learnt so far")[1].split("\n## ")[0]
    shares = [f"{it:.0f} %" for it in (twelve, less, three, least)]
    shares += [f"{it:.{1 - n % 2}f} %" for n, it in enumerate(theirs)]
    arms = "msd_ablations", "student", "student_norec"
    both = "cross_lingual", "monolingual"
    run_again = [span(differences(*arms, key)) for key in both]
    for number in (*shares, stage_4, *run_again, f"{single:.1f}", f"{fewer:.1f}"):
        assert number in " ".join(learnt.split()), number

    begun, ended = (
        rows_of("xkd_lab")[name]["monolingual"]
        for name in ("assistant before STS", "assistant")
    )
    answers = EXPERIMENTS.split("| script |")[0]
    longer = json.loads((RESULTS / "msd_long/b128_ru12_report.json").read_text())
    kept = [
        f"{100 * longer['student'][it] / longer['assistant'][it]:.1f} %" for it in both
    ]
    papers = (ROOT / "experiments/papers.md").read_text(encoding="utf-8")
    verdicts = papers[papers.index("\nOf ") + 1 :].split(". ")[0]
    numbers = [
        verdicts,
        *kept,
        stage_4,
        f"{twelve:.1f} %",
        f"{three:.1f} %",
        f"{ended - begun:.1f}",
    ]
    for table_, lower, upper in (
        ("msd_ablations", "student_nomclnorec", "student_norec"),
        ("msd_ablations", "student_nomcl", "student"),
        ("msd_ablations", "student_norec", "student"),
        ("msd_sizes", "student_b128", "student"),
        ("msd_sizes", "student_b128", "student_ru12"),
    ):
        numbers.append(span(differences(table_, upper, lower)))
    numbers.append(run_again[1])
    for number in numbers:
        assert number in answers, number


@pytest.mark.parametrize(
    ("name", "start", "label"),
    [
        ("b128_ru12", "assistant", "b128_ru12"),
        ("b128_ru12_pairs", "assistant from small12_pairs", "2,300 steps"),
        ("thin12", "assistant from small12_pairs", "thin12"),
        ("b128_ru3", "assistant", "b128_ru3"),
        ("ru3", "assistant", "ru3"),
        ("b128_measured", "assistant", "b128_measured"),
        ("b128_thin5", "assistant", "b128_thin5"),
    ],
)
def test_the_table_of_long_students_is_that_of_the_results(name, start, label):
    text = EXPERIMENTS.split("### The paper's cut, trained longer\n")[1]
    rows = table(text.split("\n**Stage 3 of")[0])
    made = read(f"msd_long/{name}_report.json")
    whole, keys = made["assistant"], ("cross_lingual", "monolingual")
    labels = {"start": "SVD start", "refitted": "least squares"}
    labels |= {"student": "after stage 3", "untrained": "untrained"}

    def three(of):
        return [*(of[key] for key in keys), of["tracks"]["en"]]

    if name == "b128_ru12":
        more = read("msd_long/b128_ru12_more_report.json")["student"]
        across, within = (100 * more[key] / whole[key] for key in keys)
        assert f"end at {across:.1f} and {within:.1f} %" in text
    if name == "ru3":
        half = read("msd_long/ru3_3300_steps_report.json")["student"]
        across, within = (100 * half[key] / whole[key] for key in keys)
        assert f"in a run of its own, {across:.1f} and {within:.1f} %" in text
        gain = made["student"]["cross_lingual"] - half["cross_lingual"]
        assert f"Twice the steps add {gain:.1f} points to `ru3`" in text
    assert rows[start][1:4] == [f"{it:.1f}" for it in three(whole)]
    found = {key: it for key, it in labels.items() if key in made}
    begun = dict.fromkeys(("b128_ru3", "b128_measured", "b128_thin5"), "start")
    begun["ru3"] = "untrained"
    assert {begun.get(name, "refitted"), "student"} <= found.keys()
    for key, step in found.items():
        own = three(made[key])
        kept = [f"{100 * a / b:.1f} %" for a, b in zip(own, three(whole), strict=True)]
        wanted = [*(f"{it:.1f}" for it in own), *kept]
        assert rows[f"{label}, {step}"][1:] == wanted


def test_the_scores_of_mini12_are_those_of_the_result():
    result, page = read("mini12.json"), section(EXPERIMENTS, "A body in 12 MB")
    text = " ".join(page.split())
    six, thin = result["six"], result["thin"]
    for name, size, one in (
        ("mini12", "12.0", result),
        ("mini12, as it was: six whole layers", "11.4", six),
        ("mini12, as it was: twelve thin layers", "11.6", thin),
    ):
        small, tuned = (scores(one[half], FOUR) for half in ("report", "choose"))
        assert f"| {name} | {size} MB | {' | '.join(small)} |" in page
        assert f"| {name} | {' | '.join(tuned)} |" in page
    names = "student, teach_student", "student, contrastive_learning", "assistant"
    learnt, rounded, whole = (f"{result['steps'][it]:.1f}" for it in names)
    *_, ended, cut = (f"{thin['steps'][it]:.1f}" for it in names)
    assert f"from {result['steps']['student, SVD start']:.1f} points across" in text
    said = f"take it to {learnt}, and 3,600 with weights in 4 bits to {rounded}."
    assert said in text
    assert f"800 steps, and ended at {ended}." in text
    assert f"itself had {cut} points on the" in text and f"it has {whole}." in text
    assert f"That is {result['minutes']:.0f} minutes of two cores" in text
    assert f"took {six['minutes']:.0f} minutes of two cores" in text
    for key, half in {"choose": "tuning", "report": "reporting"}.items():
        more = [f"{result[key][it] - six[key][it]:.1f}" for it in FOUR[:3]]
        assert f"{more[0]}, {more[1]} and {more[2]} on the {half} half" in text
        less = scores(result["shorter"][key], FOUR[:3])
        assert f"{less[0]}, {less[1]} and {less[2]} on the {half} half" in text
    missed = 74 - result["report"]["cross_lingual"]
    assert f"misses the first by {missed:.1f} points." in text
    students = read("table_width.json")
    label = "| layers, tokens"
    shown = table(label + page.split(label)[1].split("\n\n")[0])
    assert len(shown) == len(students)
    for name, row in students.items():
        body, _, rest = name.partition(", ")
        tokens, *_, width = rest.split(" ")[:4]
        label = f"{body}, {int(tokens):,} of {width}"
        cells = [f"{row['bytes'] / 1e6:.1f}"]
        for half in (row["start"]["report"], row["report"]):
            cells += [f"{half[key]:.1f}" for key in ("across", "within", "english")]
        assert shown[label] == cells


def test_the_table_of_bias_is_that_of_the_result():
    shown = table(section(EXPERIMENTS, "Bias"))
    means = [read("bias.json")[name]["mean"] for name in ("tiny12", "small12")]
    topics = "mathematics", "nursing", "leadership", "crime"
    for label, cells in shown.items():
        if label == "over the topics":
            tiny, small = (f"{of['topics']:.1f}" for of in means)
            wanted = [tiny, "", "", "", small]
        else:
            key = "gender" if label == "women less men" else label
            wanted = [f"{of[key][it]:z.1f}" for of in means for it in topics]
        assert cells == wanted, label
    assert len(shown) == len(means[0])


def test_the_language_bias_is_that_of_the_result():
    page = section(EXPERIMENTS, "One list of several languages")
    found, shown = read("language_bias.json")["encoders"], table(page)
    assert [*shown] == [*found]
    for name, of in found.items():
        tracks, bias = fmean(of["tracks"].values()), of["language_bias"]
        numbers = of["cross_lingual"], of["monolingual"], tracks, tracks + bias, bias
        assert shown[name] == [f"{it:.1f}" for it in numbers]
    lost = [f"{-found[name]['language_bias']:.1f}" for name in ("small12", "e5-small")]
    said = f"it loses {lost[0]} points to the languages, its backbone {lost[1]} |"
    assert said in EXPERIMENTS


def test_the_demo_prints_what_the_page_says():
    """The rows and the seconds are those of a run whose files are kept."""
    rows, text = rows_of("demo"), section(README, "Run the demo")
    printed = [line for line in text.splitlines() if re.search(r"\d{3},\d{3}  ", line)]
    assert printed
    for line in printed:
        name, *cells = re.split(r"\s{2,}", line.strip())
        row = rows[name]
        sizes = [f"{row[key]:,}" for key in ("parameters", "bytes", "table_bytes")]
        keys = "cross_lingual", "monolingual", "held_out"
        assert cells == [*sizes, *scores(row, keys)], name
    seconds = read("demo/timings.json")["seconds"]
    assert f"This took {seconds:.0f} seconds" in text


def test_the_tables_of_distil_are_those_of_the_result():
    page = (ROOT / "docs/own_data.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks/results/distil_small12_pairs.json"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names = {"Czech": "cs", "Indonesian": "id", "Korean": "ko"}
    names |= {"Swedish": "sv", "Ukrainian": "uk", "Vietnamese": "vi"}

    def lines(head):
        table = page.split(head)[1].split("\n\n")[0].splitlines()[2:]
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]

    def check(text, code, size, pairs, codes=None):
        count, *how = str(pairs).split()
        cell = ", ".join([codes or code, f"{size} MB", f"{count} pairs", *how])
        scores = cells[cell]["scores"][code]
        for number, key in zip(text.split(" / "), ("tatoeba", "dev"), strict=True):
            assert abs(float(number) - scores[key]) < 0.0501

    by_size = lines("| 12 MB | 16 MB | 24 MB |")
    assert [line[0] for line in by_size] == [*names]
    for name, *shown in by_size:
        for text, size in zip(shown, (12, 16, 24), strict=False):
            check(text, names[name], size, 0)
    together = lines("| all six, 16 MB | all six, 24 MB |")
    for name, *shown in together:
        for text, size in zip(shown, (16, 24), strict=True):
            check(text, names[name], size, 0, "+".join(names.values()))
    path = ROOT / "benchmarks/results/distil.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    cells = result["cells"] | {
        f"{code}, 16 MB, uncut pairs": {"scores": {code: found[UNCUT]}}
        for code, found in result["baselines"].items()
    }
    columns = "0", "1500", "1500 aligned", "uncut"
    for name, *shown in lines("| no pairs | 1,500 pairs | with `--align` |"):
        for text, pairs in zip(shown, columns, strict=True):
            if text:
                check(text, names[name], 16, pairs)


def test_the_table_of_what_distil_learns_is_that_of_the_result():
    page = (ROOT / "docs/own_data.md").read_text(encoding="utf-8")
    result = read("distil_goals.json")
    names = {"Chinese": "zh", "Turkish": "tr"}
    said = {"before training": "start", "own vectors": "own"}
    said |= {"those of the sources": "sources", "small12, 32 MB": "uncut"}
    keys = "across", "within", "english", "tatoeba", "ndcg_at_10"
    head = "| | STSb across"
    rows = table(head + page.split(head)[1].split("\n\n")[0])
    assert len(rows) == len(names) * len(said)
    for line, shown in rows.items():
        language, row = line.split(", ", 1)
        found = result[f"{names[language]}, 12 MB, 100 steps, 128 tokens"][said[row]]
        assert shown == [f"{found[key]:.1f}" if key in found else "" for key in keys]
    head = "| MB | Chinese"
    for size, shown in table(head + page.split(head)[1].split("\n\n")[0]).items():
        cells = [
            result[f"{code}, {size} MB, 0 steps{tokens}"]["start"]["ndcg_at_10"]
            for code in names.values()
            for tokens in (", 128 tokens", "")
        ]
        assert shown == [f"{cell:.1f}" for cell in cells]


def test_the_tables_of_small12_are_those_of_the_results():
    text = EXPERIMENTS.split("\n## small12\n")[1].split("### Its first training")[0]
    made = read("small12.json")
    keys = "across", "within", "english", "tatoeba", "retrieval"
    for part, head in (("report", "| model |"), ("tuning", "| share of")):
        rows = table(head + text.split(head)[1].split("\n\n")[0])
        assert rows.keys() == made[part].keys()
        for name, row in made[part].items():
            assert rows[name] == scores(row, [it for it in keys if it in row]), name


def test_the_table_of_starts_and_signals_is_that_of_the_result():
    result, head = read("signals.json"), "| start, signal |"
    rows = table(head + EXPERIMENTS.split(head)[1].split("\n\n")[0])
    whole = result["assistant"]["report"]["across"]
    assert len(rows) == len(result)
    for name, one in result.items():
        kept = f"{100 * one['report']['across'] / whole:.1f} %"
        found = scores(one["report"], ("across", "within", "english"))
        minutes = [str(one["minutes"])] if "minutes" in one else []
        assert rows[name.replace(", rate 0.0003", "")] == [*found, kept, *minutes]
