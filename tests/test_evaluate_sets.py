"""Evaluation sets by name, in Python and on the command line."""

import numpy as np
import pytest
from command_line import result, run
from small_recipe import write_rows
from table_encoder import Table, made_rows
from test_evaluate_similarity import write_extended
from test_evaluate_translations import made_pairs, write_laser

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

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture
def data(tmp_path):
    """Write a folder of sets, with whole tracks and splits where size is checked."""
    write_extended(tmp_path / "extended", 250)
    for code in ("deu", "fra"):
        write_laser(tmp_path / "tatoeba", code, made_pairs(code))
    for code in ("en", "de"):
        write_rows(tmp_path / "stsb" / f"stsb.dev.{code}.tsv.gz", made_rows(code))
        write_rows(tmp_path / "sts" / f"sick.dev.{code}.tsv.gz", made_rows(code))
        write_rows(tmp_path / "sts" / f"sick.test.{code}.tsv.gz", made_rows(code, 9))
    return tmp_path


def bucc(folder):
    """Write a language of two sentences that translate each other."""
    for split in ("sample", "training"):
        for ending, rows in {
            "de": [("de-1", "Eins"), ("de-2", "Zwei")],
            "en": [("en-1", "One"), ("en-2", "Two")],
            "gold": [("de-1", "en-1")],
        }.items():
            write_rows(folder / f"bucc2018/de-en/de-en.{split}.{ending}", rows)


def test_each_name_is_its_function(data):
    def scores(name, *options):
        return score_set(Table(), name, data, *options)

    assert set(scores("stsb")["tracks"]) == {"en", "de", "en-de"}
    english = scores("stsb", ["en"], "dev")
    assert set(english["tracks"]) == {"en"} and english["primary"] == "monolingual"
    for split in ("dev", "test"):
        rows = read_sts_folder(data / "sts", None, split, "sick")
        assert scores("sick", None, split) == sts_aligned(Table(), rows)


def test_a_set_for_mining_has_an_option(tmp_path):
    bucc(tmp_path)
    for split in ("train", "sample"):
        options = {"margin": "distance"}
        found = score_set(Table(), "bucc2018", tmp_path, ["de"], split, **options)
        assert found["margin"] == "distance" and found["gold"] == 1
    with pytest.raises(InputError, match="are: `margin`.*: queries"):
        score_set(Table(), "bucc2018", tmp_path, ["de"], queries=3)
    with pytest.raises(InputError, match="fr-en"):
        score_set(Table(), "bucc2018", tmp_path / "bucc2018")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sts2018", (), r"mean `stsb`\?.* Add `sts2018.dev.en.tsv.gz`"),
        ("sick", (None, "train"), "lacks en of .*train.*Add `sick.train.en.tsv.gz`"),
        ("sick", (["fr"],), r"lacks fr of .*Add `sick\.dev\.fr\.tsv\.gz`"),
        ("sts2017-extended", (None, "dev"), "has the splits test. Received: 'dev'"),
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
    encoder = tiny_encoder(num_layers=0)
    encoder.save(data / "encoder")
    words = ("evaluate", data / "encoder", "--data", data)
    found = result(capsys, *words, "--set", "tatoeba")
    expected = score_set(encoder, "tatoeba", data)["tracks"]
    assert found["tracks"] == pytest.approx(expected)
    half = ("--split", "test", "--part", "report")
    found = result(capsys, *words, "--sts", "sick", *half)
    assert set(found["tracks"]) == {"de", "en", "en-de"} and found["pairs"] < 9
    _, shown, _ = run(capsys, *words, "--set", "tatoeba", "--languages", "fr")
    assert "precision" in shown and "fra" in shown and "deu" not in shown


def test_files_of_each_set_are_those_that_are_opened(data, monkeypatch):
    """What a recipe hashes is what scoring reads, layout by layout."""
    bucc(data)
    for ending in ("en", "es"):
        lines = [(f"{ending} {i}",) for i in range(5)]
        write_rows(data / f"un/UNv1.0.6way.{ending}", lines)
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


def test_a_set_from_outside_is_scored_by_its_name(tmp_path, monkeypatch):
    given = {"score": letters_score, "find": letters_find, "options": ("factor",)}
    made = EvaluationSet(name="letters", splits=("train", "test"), **given)
    monkeypatch.setitem(SETS, "letters", made)
    (tmp_path / "letters.test.txt").write_text("a b c\n")
    scores = score_set(Table(), "letters", tmp_path, ["fr"], "test", factor=2)
    once = letters_score(Table(), {"fr": ["a", "b", "c"]})
    assert scores["largest"] == 2 * once["largest"]
