"""`msd.distil`: one's own pairs, whatever holds them, to an encoder."""

import gzip
import json
import os
import pty
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import keras_msd as msd
from keras_msd import InputError, distillation
from keras_msd.cli import main
from keras_msd.data.examples import example_pairs
from keras_msd.evaluate.splits import half_of
from keras_msd.evaluate.translations import read_held_out
from keras_msd.io.files import read_json

WIDTH = 16
TEACHER = msd.load_teacher("hashed-words", dim=WIDTH)
QUICK = {"updates": 16, "learning_rate": 1e-2, "vocabulary_size": 150}
OPTIONS = QUICK | {"teacher": TEACHER, "progress": False}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Look every other update, at a quarter of the general set."""
    monkeypatch.setattr(distillation, "SCORE_EVERY", 2)
    monkeypatch.setattr(distillation, "GENERAL_ROWS", 60)
    monkeypatch.setattr(distillation, "GENERAL_PAIRS", 20)


def pairs_of(count=500, seed=0, letters="ab"):
    """Three words that are translated, and three of five that mean nothing."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        words = [f"{n:02}" for n in draw.choices(range(40), k=3)]
        fillers = [draw.choices(["x0", "x1", "x2", "x3", "x4"], k=3) for _ in letters]
        sides = zip(letters, fillers, strict=True)
        texts.append(
            tuple(
                " ".join(f"{letter}{word}" for word in [*words, *others])
                for letter, others in sides
            )
        )
    return list(dict.fromkeys(texts))


def rows_in(folder, part):
    (path,) = (folder / "data/parallel" / part).iterdir()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [tuple(line.rstrip("\n").split("\t")) for line in file]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distil")
    store = {"store_dir": folder / "store"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distillation, "SCORE_EVERY", 2)
        result = msd.distil(pairs_of(), folder / "model", "sv", **OPTIONS, **store)
    return SimpleNamespace(folder=folder / "model", result=result, store=store)


def precision(encoder, folder, part):
    held = read_held_out(folder / "data/parallel/dev")
    return msd.evaluate.retrieval_languages(encoder, held, part, "text")["precision"]


def test_an_encoder_and_a_report_are_left(made):
    result, encoder = made.result, msd.load_encoder(made.folder / "encoder")
    assert encoder.config.num_layers == 0 and encoder.dim == WIDTH
    said = read_json(made.folder / "report.json")
    assert said.items() <= result.items() and result["kept"] == "trained"
    scores = {name: said["scores"][name]["precision"] for name in ("start", "end")}
    closed = msd.load_encoder(made.folder / "closed_form")
    assert scores["end"] == precision(encoder, made.folder, "report")
    assert scores["start"] == precision(closed, made.folder, "report")
    gain = scores["end"] - scores["start"]
    assert gain > 0
    assert said["verdict"] == (
        f"{gain:+.1f} points of P@1 over the ridge baseline: kept the trained encoder"
    )
    general = distillation.general_scores(encoder)
    assert said["scores"]["end"]["general"] == general
    assert {"within", "across"} == said["scores"]["end"]["similarities"].keys()


def test_weights_are_chosen_on_the_other_half(made):
    record = read_json(made.folder / "report.json")["scores_on_the_way"]
    scores = [look["dev_precision"] for look in record]
    assert record[0]["step"] == 0
    chosen = [
        precision(msd.load_encoder(made.folder / place), made.folder, "choose")
        for place in ("closed_form", "encoder")
    ]
    assert chosen == [scores[0], max(scores)]


def test_training_starts_from_an_encoder_that_knows_other_text(made, tmp_path):
    start, out = made.folder / "encoder", tmp_path / "model"
    options = OPTIONS | made.store | {"start": start, "guard": 100.0}
    result = msd.distil(pairs_of(seed=1, letters="ac"), out, "sv", **options)
    assert result["start"] == str(start) and result["kept"] == "trained"
    known, encoder = msd.load_encoder(start), msd.load_encoder(out / "encoder")
    pieces, size = encoder.tokenizer.pieces(), known.tokenizer.vocabulary_size
    assert pieces[:size] == known.tokenizer.pieces()
    assert any("c" in piece for piece in pieces[size:])
    closed = msd.load_encoder(out / "closed_form")
    assert closed.tokenizer.vocabulary_size <= OPTIONS["vocabulary_size"]
    for it, name in ((closed, "closed_form"), (encoder, "end")):
        assert result["scores"][name]["precision"] == precision(it, out, "report")
    # A quarter of what it was trained on is general text.
    names = {path.name for path in (out / "data/general").iterdir()}
    assert "general.en-fr.tsv.gz" in names


def test_the_reporting_half_decides_nothing(made, tmp_path, monkeypatch):
    scores = {}
    for name, choose, report in (("closed_form", 50.0, 60.0), ("trained", 55.0, 50.0)):
        shutil.copytree(made.folder / name, tmp_path / name)
        known = msd.load_encoder(tmp_path / name).fingerprint
        scores[known] = {"choose": choose, "report": report}

    def found(encoder, pairs, part, match):
        return {"precision": scores[encoder.fingerprint][part], "tracks": {}}

    monkeypatch.setattr(distillation, "retrieval_languages", found)
    held = read_held_out(made.folder / "data/parallel/dev")
    said = distillation._reported(tmp_path, held, TEACHER, "pairs", False, {})
    assert said["kept"] == "trained" and said["scores"]["end"]["precision"] == 50.0
    assert said["verdict"] == (
        "-10.0 points of P@1 over the ridge baseline: kept the trained encoder, which "
        "is better on the tuning half only"
    )


def test_no_better_than_the_start_keeps_the_start(made, tmp_path):
    start, out = made.folder / "encoder", tmp_path / "model"
    options = OPTIONS | made.store | {"start": start, "learning_rate": 1e-12}
    result = msd.distil(pairs_of(seed=1, letters="ac"), out, "sv", **options)
    assert result["kept"] == "start" and result["best_update"] == 0
    assert result["verdict"] == f"no better than {start}: kept {start}"
    assert result["scores"]["end"] == result["scores"]["start"]
    kept, known = msd.load_encoder(out / "encoder"), msd.load_encoder(start)
    assert kept.fingerprint == known.fingerprint


def test_the_guard_refuses_what_forgets(made, tmp_path, monkeypatch):
    """The general scores fall here as soon as training changes anything."""
    before = {"translations": 90.0, "similarity": 70.0}
    seen = []

    def general(encoder, part="report"):
        table = encoder.weights()["embedding/word"]
        seen.append(table.sum())
        fell = 0.6 * (table.sum() != seen[0])
        return before | {"similarity": before["similarity"] - fell}

    start = {"start": made.folder / "encoder"} | made.store
    pairs = pairs_of(seed=1, letters="ac")
    monkeypatch.setattr(distillation, "general_scores", general)
    result = msd.distil(pairs, tmp_path / "a", "sv", **OPTIONS | start)
    assert result["kept"] == "start" and result["best_update"] == 0
    looks = result["scores_on_the_way"]
    assert result["weights_refused"] == len(looks) - 1 > 1
    assert {look["dev_selection_score"] for look in looks[1:]} == {-1.0}
    seen.clear()
    result = msd.distil(pairs, tmp_path / "b", "sv", **OPTIONS | start, guard=0.7)
    assert result["kept"] == "trained" and result["weights_refused"] == 0
    result = msd.distil(pairs, tmp_path / "c", "sv", **OPTIONS | start, guard=None)
    assert result["kept"] == "trained" and not (tmp_path / "c/data/general").exists()


def test_general_sentences_are_held_out(made):
    trained = {pair.source for pair in example_pairs()}
    pairs, rows = distillation._general()
    for held in pairs.values():
        assert not trained & {source for source, _ in held}
    choose, report = (
        {text for row in rows[part]["en"] for text in row[1:]}
        for part in ("choose", "report")
    )
    assert choose and report and not choose & report


def test_the_closed_form_is_kept_where_it_is_better_and_nothing_is_guarded(
    made, tmp_path
):
    start, out = tmp_path / "start", tmp_path / "model"
    tokenizer = msd.load_encoder(made.folder / "encoder").tokenizer
    table = np.ones((tokenizer.vocabulary_size, WIDTH), "float32")
    msd.starts.closed_form_encoder(tokenizer, table, max_length=64).save(start)
    still = {"learning_rate": 1e-12, "guard": None, "start": start}
    options = OPTIONS | made.store | still
    result = msd.distil(pairs_of(seed=1, letters="cd"), out, "sv", **options)
    closed = msd.load_encoder(out / "closed_form")
    assert result["kept"] == "closed_form"
    assert result["scores"]["end"] == result["scores"]["closed_form"]
    assert msd.load_encoder(out / "encoder").fingerprint == closed.fingerprint


@pytest.mark.parametrize(
    ("installed", "options", "start"),
    [
        (True, {}, "tiny12"),
        (False, {}, "pairs"),
        (True, {"start": "pairs"}, "pairs"),
        (True, {"teacher": TEACHER}, "pairs"),
    ],
)
def test_tiny12_is_the_start_where_it_is_there(
    tmp_path, monkeypatch, installed, options, start
):
    monkeypatch.setattr(distillation, "_teacher", lambda *given: TEACHER)
    monkeypatch.setattr(distillation, "is_installed", lambda name: installed)
    with pytest.raises(InputError, match="at least 100 training pairs"):
        msd.distil(pairs_of(9), tmp_path, progress=False, **options)
    caught = []
    monkeypatch.setattr(
        distillation, "_split", lambda *it: caught.append(it[1]) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        msd.distil(pairs_of(), tmp_path, progress=False, **options)
    assert caught[0]["start"] == start


def test_the_teacher_is_looked_for_before_anything_is_read(tmp_path, monkeypatch):
    def absent():
        raise InputError("The default teacher needs the package")

    monkeypatch.setattr("keras_msd.load.default_folder", absent)
    with pytest.raises(InputError, match="The default teacher needs the package"):
        msd.distil(tmp_path / "nowhere.csv", tmp_path / "out", progress=False)


def test_the_same_call_continues_and_another_is_refused(made):
    mark = made.folder / "report.json"
    before = mark.stat().st_mtime_ns
    again = msd.distil(pairs_of(), made.folder, "sv", **OPTIONS, **made.store)
    assert mark.stat().st_mtime_ns == before
    assert again == made.result
    with pytest.raises(InputError, match="belongs to a run with other pairs"):
        msd.distil(pairs_of(seed=1), made.folder, "sv", **OPTIONS)
    with pytest.raises(InputError, match="belongs to a run with other settings"):
        msd.distil(pairs_of(), made.folder, "sv", **OPTIONS | {"seed": 1})


class StopHereError(Exception):
    pass


def test_a_training_that_was_stopped_ends_with_the_same_weights(
    made, tmp_path, monkeypatch
):
    out, scores = tmp_path / "model", distillation._Watch._scores
    monkeypatch.setattr(distillation, "CHECKPOINT_MINUTES", 0.0)  # after every update

    def stop(self, encoder):
        if self.step == 4:
            raise StopHereError
        return scores(self, encoder)

    monkeypatch.setattr(distillation._Watch, "_scores", stop)
    with pytest.raises(StopHereError):
        msd.distil(pairs_of(), out, "sv", **OPTIONS, **made.store)
    assert not (out / "trained").exists() and any((out / "unfinished").iterdir())
    seen = []

    def rest(self, encoder):
        seen.append(self.step)
        return scores(self, encoder)

    monkeypatch.setattr(distillation._Watch, "_scores", rest)
    result = msd.distil(pairs_of(), out, "sv", **OPTIONS, **made.store)
    assert seen == [*range(4, 17, 2)]  # what was trained is not trained again
    same = [msd.load_encoder(it / "encoder").fingerprint for it in (out, made.folder)]
    assert same[0] == same[1] and result["scores"] == made.result["scores"]
    assert not (out / "unfinished").exists()


def test_held_out_pairs_are_never_trained_on(made):
    held, trained = (rows_in(made.folder, part) for part in ("dev", "train"))
    for side in (0, 1):
        assert not {row[side] for row in held} & {row[side] for row in trained}
    assert {*held} | {*trained} <= {*pairs_of()}
    halves = {half_of(source) for source, _ in held}
    assert halves == {"choose", "report"}


def test_what_is_held_out_follows_from_the_text_alone(tmp_path):
    rows = pairs_of(2000)
    for name, given in (("one", rows), ("two", rows[::-1][:1500])):
        distillation._split(
            msd.data.Pairs.from_list([(*r, "sv") for r in given]), {}, tmp_path / name
        )
    one, two = (
        {*read_held_out(tmp_path / name / "parallel/dev")["sv"]}
        for name in ("one", "two")
    )
    assert two <= one and len(two) > 100


def test_a_translation_that_is_held_out_once_is_in_no_other_pair(tmp_path):
    rows = [(source, "same") for source, _ in pairs_of()] + pairs_of()
    corpus = msd.data.Pairs.from_list([(*row, "sv") for row in rows])
    counts, dropped = distillation._split(corpus, {}, tmp_path / "data")
    assert "same" not in {target for _, target in rows_in(tmp_path, "train")}
    assert counts["sv"]["train"] == len(rows_in(tmp_path, "train"))
    used = sum(counts["sv"].values())
    assert dropped["sv"] == {"held_out": len(rows) - used}


def test_what_is_dropped_is_counted_by_reason(tmp_path):
    words = [f"w{n}" for n in range(3000)]
    long = [(f"{n} {' '.join(words)}", f"{' '.join(words)} {n}") for n in range(40)]
    rows = pairs_of() + long
    wrong = [("", "a"), ("a", "\u200b"), ("a", "b" * 99), rows[0], rows[0], long[0]]
    corpus = msd.data.Pairs.from_list([(*row, "sv") for row in rows + wrong])
    counts, dropped = distillation._split(corpus, {}, tmp_path / "data")
    again = distillation._split(corpus, {}, tmp_path / "data")
    assert again == (counts, dropped)
    kept = sum(counts["sv"].values())
    assert dropped["sv"].pop("held_out", 0) + kept == len(rows)
    assert dropped["sv"] == {"empty": 2, "ratio": 1, "duplicate": 3}
    used = {*rows_in(tmp_path, "train"), *rows_in(tmp_path, "dev")}
    assert used >= {*long}


def test_paragraphs_are_trained_on(tmp_path):
    rows = [(" ".join([a] * 100), " ".join([b] * 100)) for a, b in pairs_of(300)]
    result = msd.distil(rows, tmp_path / "model", "sv", **OPTIONS | {"updates": 2})
    texts = msd.data.TextTable.open(tmp_path / "model/table/texts")
    assert len(texts) == result["pairs"]["sv"]["train"] > 200
    assert result["dropped"]["sv"].keys() <= {"held_out"}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (pairs_of(60), "at least 100 training pairs after.*Received: [45]"),
        ([], "must hold a pair"),
        (
            [*pairs_of(), {"en": "One.", "fi": "Yksi."}],
            "`pairs` in `fi` has too few.*Received: 0 to train, 1 to choose",
        ),
    ],
)
def test_too_few_pairs(tmp_path, pairs, message):
    with pytest.raises(InputError, match=message):
        msd.distil(pairs, tmp_path / "model", **OPTIONS)
    assert not (tmp_path / "model/data").exists()


def test_pairs_without_english_need_another_teacher(tmp_path):
    options = OPTIONS | {"language": "fr", "source_language": "de"}
    with pytest.raises(InputError, match="`memory.de-fr`.*Take a multilingual teacher"):
        msd.distil(pairs_of(), tmp_path / "model", **options)


def test_time_ends_the_training(tmp_path):
    result = msd.distil(pairs_of(), tmp_path / "model", minutes=1e-9, **OPTIONS)
    assert (result["updates"], result["ended"]) == (1, "minutes")
    assert result["pairs"].keys() == {"und"}


def test_the_time_of_a_training_that_continues_counts_whole():
    watch = object.__new__(distillation._Watch)
    state = {"record": [], "step": 3, "best": 1.0, "best_step": 2}
    state |= {"_looks_since_best": 0, "_weights": []}
    watch.set_state({**state, "first": {}, "refused": 2, "spent": 100.0})
    watch._began = time.monotonic()
    assert watch.get_state()["spent"] >= 100.0 and watch.refused == 2
    assert state.items() <= watch.get_state().items()


def own_csv(tmp_path):
    lines = ["sv,en", *(f"{target},{source}" for source, target in pairs_of())]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(lines))
    return path


ARGUMENTS = ["--teacher=hashed-words", "--vocabulary-size=150", "--updates=16"]


def test_the_command(tmp_path, capsys):
    arguments = ["distil", str(own_csv(tmp_path)), "--out", str(tmp_path / "model")]
    with pytest.raises(SystemExit) as end:
        main([*arguments, *ARGUMENTS, "--json"])
    said = json.loads(capsys.readouterr().out)
    assert not end.value.code and list(said["pairs"]) == ["sv"]
    with pytest.raises(SystemExit):
        main([*arguments, *ARGUMENTS])
    shown, _ = capsys.readouterr()
    assert f"Result: {said['verdict']}\n" in shown
    before, after = (said["scores"][it]["precision"] for it in ("start", "end"))
    assert f"your pairs, P@1                         {before:8.1f}{after:8.1f}" in shown
    assert max(map(len, shown.splitlines()[:-2])) <= 80


def test_columns_and_format_of_the_command(tmp_path, capsys):
    rows = (f"{n}\tx\t{b}\t{a}\n" for n, (a, b) in enumerate(pairs_of()))
    path = tmp_path / "own.txt"
    path.write_text("".join(rows))
    given = ["--format=tsv", "--columns=4,3", "--language=sv", "--json"]
    with pytest.raises(SystemExit) as end:
        main(["distil", str(path), "--out", str(tmp_path / "m"), *ARGUMENTS, *given])
    assert not end.value.code
    assert {*rows_in(tmp_path / "m", "dev")} <= {*pairs_of()}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_line_appears_within_the_first_second(tmp_path):
    reader, writer = pty.openpty()  # as on a terminal
    command = [sys.executable, "-m", "keras_msd", "distil", "nowhere.csv", "--out", "m"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=writer) as process:
        os.close(writer)
        first = os.read(reader, 100).decode()
        # Of the processor: other work on the machine does not count.
        used = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        process.kill()
    seconds = (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")
    os.close(reader)
    assert first.startswith("Distilling into m")
    assert seconds < 1.5


def test_a_language_without_held_out_pairs(tmp_path):
    (tmp_path / "own.en-de.tsv").write_text("A\tB\n")
    with pytest.raises(InputError, match="no file for `fr`"):
        read_held_out(tmp_path, ["de", "fr"])
