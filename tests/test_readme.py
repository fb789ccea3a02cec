"""Numbers in README.md and experiments/README.md are those of committed files."""

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


def read(name):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


BACKBONE = read("ablations_backbone.json")["tables"]
STAGES = "msd_stages, SVD starts"
SHOWN = "across", "within", "english", "tatoeba"


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


def test_the_summaries_of_stage_1_have_the_scores_of_its_runs():
    before = rows_of("msd_backbone")["assistant before stage 1"]["cross_lingual"]
    (after,) = (
        row["cross_lingual"]
        for row in read("assistant12.json")["rows"]
        if row["name"] == "assistant"
    )
    (small12,) = (
        row["cross_lingual"]
        for row in read("small12.json")["report"]
        if row["name"] == "small12"
    )
    assert (
        f"from {before:.1f} to {after:.1f} points across languages (recipe "
        "`assistant12`). small12 is trained in the same way, with fewer tokens and "
        f"weights rounded to 4 bits, and has {small12:.1f} "
    ) in " ".join(README.split())


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
    }
    assert cells.keys() == wanted.keys()
    for label, row in wanted.items():
        for cell, key in zip(cells[label], keys, strict=True):
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


def span(*found):
    """Return the least and the largest of some numbers, without a sign."""
    signs = {it > 0 for numbers in found for it in numbers}
    assert len(signs) == 1, found
    sizes = [abs(it) for numbers in found for it in numbers]
    return f"{min(sizes):.1f} to {max(sizes):.1f}"


def added_by(stage, before, table=STAGES, suffix=""):
    """Return by seed what a stage adds across languages to the one before it."""
    ends = [it["ends"] for it in BACKBONE[table]["seeds"].values()]
    return [it[f"{stage}{suffix}"] - it[f"{before}{suffix}"] for it in ends]


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


def test_every_number_of_the_answers_is_that_of_a_file():
    cells = table(EXPERIMENTS.split("| script |")[0])
    stage_4 = span(added_by("contrastive_learning", "teach_student"))
    within, across = (
        -fmean(differences(STAGES, "student", "student_stage123", key))
        for key in ("monolingual", "cross_lingual")
    )
    once = span(differences("msd_ablations", "student_norec", "student_nomclnorec"))
    narrow = span(differences("msd_sizes", "student", "student_b128"))
    layers = span(differences("msd_sizes", "student_ru12", "student_b128"))
    (twelve, less), (three, least) = map(share_of, ("student_ru12", "student_b128"))
    halves = read("stage1.json")
    (of,) = (halves[it] for it in halves if it.startswith("report: de es fr"))
    begun, ended = of["backbone_64000_without_others"]["0.0"], of["backbone_64000"]
    gains = {key: ended["1.0"][key] - begun[key] for key in begun if key in SHOWN}
    assert min(gains["within"], gains["english"]) >= 0
    cost = ended["all tokens"]["across"] - ended["1.0"]["across"]
    before, after = (
        rows_of("xkd_lab")[name]["monolingual"]
        for name in ("assistant before STS", "assistant")
    )
    answers = {
        "Do four stages beat three?": (
            f"As the paper measures it, yes: stage 4 adds {stage_4} points across "
            "languages to what stage 3 of the same run leaves. With equal steps, no: "
            f"four score {within:.1f} points lower within languages and {across:.1f} "
            "across. Both beat a single stage"
        ),
        "Do recurrence and contrastive learning help?": (
            f"Contrastive learning adds {once} points across languages where layers "
            "run once. Recurrence cannot be told: its students are unstable between "
            "seeds"
        ),
        "Does a bottleneck cost less than fewer layers?": (
            "After 550 steps, yes: across languages a bottleneck of 128 costs "
            f"{narrow} points, three layers in place of twelve {layers}. The students "
            "with three layers are unstable and still rise"
        ),
        "How much of its assistant does a student keep?": (
            f"With a bottleneck of 128, {twelve:.1f} % of small12 across languages "
            f"with all twelve layers ({less:.0f} % fewer parameters), {three:.1f} % "
            f"with three ({least:.0f} % fewer)"
        ),
        "Does stage 1 help a pre-trained multilingual model?": (
            f"Yes, in `msd_backbone` with 64,000 tokens: {gains['across']:.1f} points "
            f"across languages and {gains['tatoeba']:.1f} on Tatoeba, and nothing is "
            "lost within languages or in English"
        ),
        "What does a smaller vocabulary cost?": (
            f"64,000 of 94,536 tokens: {cost:.1f} points across languages"
        ),
        "What does fine-tuning on STS scores add?": (
            f"{after - before:.1f} points within languages"
        ),
    }
    for question, (answer, _) in cells.items():
        if re.search(r"\d", answer.replace("small12", "").replace("tiny12", "")):
            assert answer == answers.pop(question)
    assert not answers


def test_every_number_of_what_we_learnt_is_that_of_a_file():
    text = " ".join(README.split("What we have learnt so far")[1].split())
    (twelve, less), (three, least) = map(share_of, ("student_ru12", "student_b128"))
    theirs = [number for row in ("RU 12", "RU 3") for number in published(row)]
    assert (
        f"keep {twelve:.0f} % of its cross-lingual score with all twelve layers "
        f"({less:.0f} % fewer parameters) and {three:.0f} % with three "
        f"({least:.0f} % fewer)"
    ) in text
    assert (
        "Ding et al. report {:.1f} % ({:.0f} % fewer) and {:.1f} % ({:.0f} % fewer)"
    ).format(*theirs) in text
    stage_4 = span(added_by("contrastive_learning", "teach_student"))
    single, three = (
        abs(fmean(differences(STAGES, "student", name)))
        for name in ("student_single", "student_stage123")
    )
    assert f"Stage 4 adds {stage_4} points across languages" in text
    assert (
        f"score {single:.1f} points higher than a single one, and {three:.1f}" in text
    )
    rows = rows_of("msd_backbone")
    own, whole = (
        rows[name]["parameters"] for name in ("student, teach_student", "assistant")
    )
    assert f"and {100 - 100 * own / whole:.0f} % fewer parameters, and keeps" in text


def test_figures_of_the_papers_page_that_notes_repeat_are_those_of_the_files():
    tables = read("ablations.json")["tables"]
    page = (ROOT / "experiments/papers.md").read_text(encoding="utf-8")
    page = " ".join(page.split())
    stage_4 = span(added_by("contrastive_learning", "teach_student"))
    assert f"stage 4 adds {stage_4} points across languages" in page
    within, across = (
        -fmean(differences(STAGES, "student", "student_stage123", key))
        for key in ("monolingual", "cross_lingual")
    )
    assert f"(−{within:.1f} points within languages, −{across:.1f} across)" in page
    (twelve, less), (three, least) = map(share_of, ("student_ru12", "student_b128"))
    theirs = [number for row in ("RU 12", "RU 3") for number in published(row)]
    assert (
        f"all twelve layers keep {twelve:.1f} % of the cross-lingual score with "
        f"{less:.0f} % fewer parameters. The paper's student of the same backbone, "
        f"MiniLM, keeps {theirs[0]:.1f} % with {theirs[1]:.0f} % fewer."
    ) in page
    assert (
        f"Three layers run four times keep {three:.1f} % with {least:.0f} % fewer "
        f"parameters, where the paper's keep {theirs[2]:.1f} % with {theirs[3]:.0f} % "
        "fewer."
    ) in page
    lost = added_by("contrastive_learning", "teach_student", "msd_sizes", "_ru12")
    assert max(lost) < 0
    assert f"it takes {span(lost)} points across languages from the one with" in page
    hard, soft = (
        differences("msd_ablations", name, "student_nomcl")
        for name in ("student_cehard", "student_ce")
    )
    assert f"{span(hard)} points above no contrastive term" in page
    assert f"{span(soft)} points below no contrastive term" in page
    widths = tables["lealla_dimensions"]["seeds"].values()
    wide, *narrow = (
        fmean(it["rows"][f"reduced_{width}"]["retrieval"] for it in widths)
        for width in (128, 64, 32)
    )
    lost = [f"{wide - score:.1f}" for score in narrow]
    assert f"64 dimensions score {lost[0]} points lower on Tatoeba than 128" in page
    assert f"and 32 score {lost[1]} lower" in page
    layers = BACKBONE["msd_layers"]
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


def test_the_bullets_of_small12s_and_e5s_students_are_those_of_the_file():
    text = " ".join(EXPERIMENTS.split())
    ends = [it["ends"] for it in BACKBONE["msd_ablations"]["seeds"].values()]
    four, once = (
        "{:.1f}, {:.1f} and {:.1f}".format(*(it[f"teach_student{end}"] for it in ends))
        for end in ("", "_norec")
    )
    assert f"at {four} with three seeds, where the other ends at {once}." in text
    page = (ROOT / "experiments/papers.md").read_text(encoding="utf-8")
    rounded = [f"{it['teach_student']:.0f}" for it in ends]
    assert f"end stage 3 at {rounded[0]}, {rounded[1]} and {rounded[2]} points" in page
    starts = BACKBONE["msd_ablations"]["starts"]
    behind = (
        starts["student_norec"]["cross_lingual"] - (starts["student"]["cross_lingual"])
    )
    assert f"begins {behind:.1f} points lower across languages" in text
    pairs = ("student", "student_norec"), ("student_norec", "student_nomclnorec")
    pairs += (("student", "student_nomcl"),)
    recurrence, contrast, unstable = (
        [span(differences("msd_ablations", *pair, key)) for key in SCORES[1::-1]]
        for pair in pairs
    )
    assert f"it is {recurrence[0]} points lower within languages" in text
    assert f"gains 4.6, and {recurrence[1]} higher across." in text
    assert f"by {contrast[0]} points within languages and {contrast[1]} across" in text
    assert f"there it adds {unstable[0]} and {unstable[1]}." in text
    seeds = BACKBONE[STAGES]["seeds"].values()
    after_3, after_4, longer = (
        span([it["ends"][step] for it in seeds])
        for step in ("teach_student", "contrastive_learning", "teach_student_stage123")
    )
    assert f"a student scores {after_3} across languages." in text
    assert f"take it to {after_4}, which" in text
    assert f"take it to {longer}, which is that of equal steps" in text
    within, across, late = (
        span(differences(STAGES, "student", name, key))
        for name, key in (
            ("student_single", "monolingual"),
            ("student_single", "cross_lingual"),
            ("student_longer", "cross_lingual"),
        )
    )
    assert f"by {within} points within languages and {across} across, though" in text
    assert f"the assistant's 150 steps stays {late} points behind" in text
    begun = BACKBONE[STAGES]["starts"]["student_stage12"]["cross_lingual"]
    ended = fmean(it["rows"]["student_stage12"]["cross_lingual"] for it in seeds)
    assert f"{begun:.1f} before, {ended:.1f} after 550 steps" in text


def test_the_bullets_of_layers_and_bottlenecks_are_those_of_the_file():
    text = " ".join(EXPERIMENTS.split())
    (twelve, less), (six, _), (three, least) = map(
        share_of, ("student_ru12", "student_ru6", "student_b128")
    )
    theirs = [number for row in ("RU 12", "RU 3") for number in published(row)]
    assert (
        f"keep {twelve:.1f} % of small12's cross-lingual score ({less:.0f} % fewer "
        f"parameters), six (run twice) {six:.1f} %, three (run four times) "
        f"{three:.1f} % ({least:.0f} % fewer). The paper's MiniLM keeps "
        "{:.1f} % with twelve ({:.0f} % fewer) and {:.1f} % with three ({:.0f} % fewer)"
    ).format(*theirs) in text
    sizes = BACKBONE["msd_sizes"]
    begun = {name: row["cross_lingual"] for name, row in sizes["starts"].items()}
    ends = [it["ends"] for it in sizes["seeds"].values()]
    stage_2 = fmean(it["align_embedding_ru12"] for it in ends) - begun["student_ru12"]
    stage_3 = fmean(added_by("teach_student", "align_embedding", "msd_sizes", "_ru12"))
    stage_4 = added_by("contrastive_learning", "teach_student", "msd_sizes", "_ru12")
    assert (
        f"takes {begun['assistant']:.1f} points across languages to "
        f"{begun['student_ru12']:.1f}. Stage 2 adds {stage_2:.1f} and stage 3 "
        f"{stage_3:.1f}; stage 4 takes {span(stage_4)} away again. With three layers "
        f"run four times, {begun['student_b128']:.1f} are left"
    ) in text
    low, high = (
        span([round(it[f"{stage}_b128"]) for it in ends]).replace(".0", "")
        for stage in ("teach_student", "contrastive_learning")
    )
    assert f"of which stage 3 makes {low} and stage 4 {high} (" in text
    rows = sizes["seeds"]["0"]["rows"]
    for upper, said in (
        ("student", "a bottleneck of 128 saves {} million parameters and costs {} "),
        ("student_ru12", "Nine layers less save {} million and cost {} "),
    ):
        saved = (rows[upper]["parameters"] - rows["student_b128"]["parameters"]) / 1e6
        across, within = (
            differences("msd_sizes", upper, "student_b128", key)
            for key in ("cross_lingual", "monolingual")
        )
        if upper == "student_ru12":  # whole points are near enough
            across, within = ([round(x) for x in it] for it in (across, within))
        spans = [span(it).replace(".0", "") for it in (across, within)]
        sentence = said.format(f"{saved:.1f}", spans[0])
        assert f"{sentence}points across languages, {spans[1]} within" in text


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


def test_the_table_of_1500_pairs_is_that_of_the_result():
    page = (ROOT / "docs/own_data.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks/results/distil.json"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names = {"Czech": "cs", "Indonesian": "id", "Korean": "ko"}
    names |= {"Swedish": "sv", "Ukrainian": "uk", "Vietnamese": "vi"}
    table = page.split("| no pairs | 1,500 pairs | kept |")[1].split("\n\n")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert [line[0] for line in lines] == list(names)
    for name, *shown, kept in lines:
        code = names[name]
        for text, pairs in zip(shown, (0, 1500), strict=True):
            scores = cells[f"{code}, 16 MB, {pairs} pairs"]["scores"][code]
            for number, key in zip(text.split(" / "), ("tatoeba", "dev"), strict=True):
                assert abs(float(number) - scores[key]) < 0.0501
        chosen = cells[f"{code}, 16 MB, 1500 pairs"]["kept"]
        assert kept == {"start": "before training"}.get(chosen, chosen)
