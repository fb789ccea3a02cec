"""Evaluation sets by name, in Python and on the command line."""

import json

import numpy as np
import pytest
from small_recipe import write_place
from table_encoder import Table
from test_evaluate_similarity import write_extended
from test_evaluate_stsb_multilingual import made_rows, write_ours
from test_evaluate_tatoeba import made_pairs, write_laser

import keras_msd as msd
from keras_msd import cli
from keras_msd.checks import InputError
from keras_msd.data.readers import lines as lines_module
from keras_msd.evaluate import (
    SETS,
    EvaluationSet,
    SetFile,
    read_sts_folder,
    score_set,
    sts_aligned,
)
from keras_msd.testing import tiny_encoder


@pytest.fixture
def data(tmp_path):
    """Write a folder of sets, with whole tracks and splits where size is checked."""
    write_extended(tmp_path / "extended", 250)
    for code in ("deu", "fra"):
        write_laser(tmp_path / "tatoeba", code, made_pairs(code))
    for code in ("en", "de"):
        write_ours(tmp_path / "stsb" / f"stsb.dev.{code}.tsv.gz", made_rows(code))
        write_ours(tmp_path / "sts" / f"sick.dev.{code}.tsv.gz", made_rows(code))
        write_ours(tmp_path / "sts" / f"sick.test.{code}.tsv.gz", made_rows(code, 9))
    return tmp_path


def bucc(folder):
    """Write a language of two sentences that translate each other."""
    for split in ("sample", "training"):
        for ending, text in {
            "de": "de-1\tEins\nde-2\tZwei\n",
            "en": "en-1\tOne\nen-2\tTwo\n",
            "gold": "de-1\ten-1\n",
        }.items():
            path = folder / "bucc2018" / "de-en" / f"de-en.{split}.{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def test_each_name_is_its_function(data):
    def scores(name, *options):
        return score_set(Table(), name, data, *options)

    assert len(scores("sts2017-extended")["tracks"]) == 10
    assert list(scores("sts2017-extended", ["de"])["tracks"]) == ["en-en", "en-de"]
    assert set(scores("stsb")["tracks"]) == {"en", "de", "en-de"}
    assert set(scores("stsb", ["en"], "dev")["tracks"]) == {"en"}
    assert set(scores("tatoeba")["tracks"]) == {"deu", "fra"}
    assert set(scores("tatoeba", ["fr"])["tracks"]) == {"fra"}
    for split in ("dev", "test"):
        rows = read_sts_folder(data / "sts", None, split, "sick")
        assert scores("sick", None, split) == sts_aligned(Table(), rows)


def test_sets_for_mining_and_retrieval(tmp_path):
    bucc(tmp_path)
    for split in ("train", "sample"):
        options = {"margin": "distance"}
        found = score_set(Table(), "bucc2018", tmp_path, ["de"], split, **options)
        assert found["margin"] == "distance" and found["gold"] == 1
    with pytest.raises(InputError, match="are: `margin`.*: queries"):
        score_set(Table(), "bucc2018", tmp_path, ["de"], queries=3)
    with pytest.raises(InputError, match="fr-en"):
        score_set(Table(), "bucc2018", tmp_path / "bucc2018")
    for ending in ("en", "es"):
        lines = "".join(f"{ending} {i}\n" for i in range(5))
        (tmp_path / f"UNv1.0.en-es.{ending}").write_text(lines)
    assert score_set(Table(), "un", tmp_path, ["es"])["candidates"] == 5


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sts2018", (), r"mean `stsb`\?.* Add `sts2018.dev.en.tsv.gz`"),
        ("sick", (None, "train"), "lacks en of .*train.*Add `sick.train.en.tsv.gz`"),
        ("sick", (["fr"],), r"lacks fr of .*Add `sick\.dev\.fr\.tsv\.gz`"),
        (
            "sts2017-extended",
            (None, "dev"),
            "`sts2017-extended` has the splits test. Received: 'dev'",
        ),
        ("stsb", (["fr"],), "lacks fr of .*part dev"),
        ("tatoeba", (["tr"],), "lacks tur of"),
    ],
)
def test_what_is_not_there(data, name, options, message):
    with pytest.raises(InputError, match=message):
        score_set(Table(), name, data, *options)


def test_no_folder(tmp_path):
    for name in [*SETS, "sick"]:
        with pytest.raises(InputError, match="nowhere` does not exist"):
            score_set(Table(), name, tmp_path / "nowhere")


def test_on_the_command_line(data, capsys):
    encoder = tiny_encoder()
    encoder.save(data / "encoder")

    def run(*options, code=0):
        with pytest.raises(SystemExit) as stop:
            cli.main(["evaluate", str(data / "encoder"), "--data", str(data), *options])
        assert stop.value.code == code
        shown = capsys.readouterr()
        return shown.err if code else shown.out

    found = json.loads(run("--set", "tatoeba", "--json"))
    expected = score_set(encoder, "tatoeba", data)["tracks"]
    assert found["tracks"] == pytest.approx(expected)
    found = json.loads(run("--sts", "sick", "--split", "test", "--json"))
    assert set(found["tracks"]) == {"de", "en", "en-de"} and found["pairs"] == 9
    shown = run("--set", "tatoeba", "--languages", "fr").split()
    assert shown[2] == "precision" and "fra" in shown and "deu" not in shown
    for path in (data / "extended").rglob("STS.*"):
        if path.name != "STS.en-en.txt":
            path.unlink()
    message = run("--set", "sts2017-extended", code=2)
    assert message.startswith("Error: ") and "lacks ar-ar, es-es, en-ar" in message


def test_through_links(data):
    expected = score_set(Table(), "tatoeba", data / "tatoeba")
    folder = data / "linked"
    folder.mkdir()
    (folder / "tatoeba").symlink_to(data / "tatoeba")
    (folder / "circle").symlink_to(folder)
    assert score_set(Table(), "tatoeba", folder) == expected


def test_files_of_each_set_are_those_that_are_opened(data, monkeypatch):
    """What a recipe hashes is what scoring reads, layout by layout."""
    bucc(data)
    (data / "un").mkdir()
    for ending in ("en", "es"):
        lines = "".join(f"{ending} {i}\n" for i in range(5))
        (data / "un" / f"UNv1.0.6way.{ending}").write_text(lines)
    real, opened = lines_module.open_bytes, set()

    def noted(path):
        opened.add(path.resolve())
        return real(path)

    monkeypatch.setattr(lines_module, "open_bytes", noted)
    cases = [
        ("sts2017-extended", "extended", ["de"]),
        ("stsb", "stsb", ["de"]),
        ("sick", "sts", ["de"]),
        ("tatoeba", "tatoeba", ["deu"]),
        ("un", "un", ["es"]),
        ("bucc2018", "bucc2018", ["de"]),
    ]
    for name, folder, codes in cases:
        record = SETS[name]
        parts = record.find(data / folder, codes, record.splits[0])
        opened.clear()
        score_set(Table(), name, data / folder, codes)
        files = (path for part in parts.values() for path in part.paths)
        assert {path.resolve() for path in files} == opened, name


def letters_score(encoder, parts, factor=1):
    tracks = {
        f"en-{code}": round(float(np.abs(encoder.encode(texts)).max()), 4) * factor
        for code, texts in parts.items()
    }
    return {"largest": max(tracks.values()), "tracks": tracks, "primary": "largest"}


def letters_find(folder, languages, split):
    paths = (folder / f"letters.{split}.txt",)
    file = SetFile(paths, lambda path: path.read_text().split())
    return dict.fromkeys(languages or ["de"], file)


@pytest.fixture
def letters():
    SETS["letters"] = EvaluationSet(
        name="letters",
        splits=("train", "test"),
        score=letters_score,
        find=letters_find,
        folder="letters",
        options=("factor",),
        label="Letters",
    )
    yield
    del SETS["letters"]


def test_a_set_from_outside_is_scored_by_its_name(tmp_path, letters, capsys):
    (tmp_path / "letters.test.txt").write_text("a b c\n")
    scores = score_set(Table(), "letters", tmp_path, ["fr"], "test", factor=2)
    once = letters_score(Table(), {"fr": ["a", "b", "c"]})
    assert scores["largest"] == 2 * once["largest"]
    with pytest.raises(InputError, match="the splits train, test. Received: 'dev'"):
        score_set(Table(), "letters", tmp_path, None, "dev")
    with pytest.raises(InputError, match="are: `factor`. Received: other"):
        score_set(Table(), "letters", tmp_path, None, "test", other=1)
    with pytest.raises(TypeError, match="find"):
        EvaluationSet(name="x", splits=("test",), score=letters_score)
    tiny_encoder().save(tmp_path / "encoder")
    arguments = ["--data", str(tmp_path), "--set", "letters", "--split", "test"]
    with pytest.raises(SystemExit) as stop:
        cli.main(["evaluate", str(tmp_path / "encoder"), *arguments, "--json"])
    assert stop.value.code == 0
    assert json.loads(capsys.readouterr().out)["primary"] == "largest"


@pytest.mark.slow
def test_a_set_from_outside_in_a_recipe_and_its_report(tmp_path, letters):
    place = write_place(tmp_path)
    file = place / "data/letters/letters.test.txt"
    changes = {
        "evaluate.sets": ["examples", "letters", "tatoeba"],
        "evaluate.splits.letters": "test",
        "evaluate.artefacts": False,
        "evaluate.intermediate": "none",
        "stages.align_embedding.skip": True,
        "stages.teach_student.skip": True,
    }

    def start():
        return msd.recipes.run(
            place / "small.toml",
            tmp_path / "run",
            None,
            place / "data",
            overrides=changes,
        )

    with pytest.raises(InputError, match=r"letters\.test\.txt` do not exist"):
        start()
    file.parent.mkdir()
    file.write_text("a b c\n")
    row = start()["rows"][-1]
    encoder = msd.load_encoder(tmp_path / "run/student")
    scores = letters_score(encoder, {"de": ["a", "b", "c"]})
    assert row["letters"] == pytest.approx(scores["largest"])
    assert row["tracks"]["letters-de"] == row["letters"]
    assert {"cross_lingual", "retrieval"} <= row.keys()
    file.write_text("a b d\n")
    with pytest.raises(InputError, match=r"letters/letters\.test\.txt"):
        start()  # its file is among those that a run goes on with
    page = (tmp_path / "run/report.html").read_text()
    assert "<th>Letters</th>" in page or ">Letters<" in page
