"""Evaluation sets by name, in Python and on the command line."""

import json
import shutil

import pytest
from table_encoder import Table
from test_evaluate_sts2017 import write_extended, write_semeval
from test_evaluate_stsb_multilingual import made_rows, write_csv, write_ours
from test_evaluate_tatoeba import made_pairs, write_laser

from keras_msd import cli
from keras_msd.checks import InputError
from keras_msd.evaluate import (
    bucc_folder,
    retrieval_folder,
    score_set,
    sts2017,
    sts_folder,
    stsb_multilingual,
    un_folder,
)
from keras_msd.evaluate.sets import SETS
from keras_msd.evaluate.sts2017 import SEMEVAL_TRACKS
from keras_msd.testing import tiny_encoder


@pytest.fixture
def data(tmp_path):
    """Write a folder of sets, with whole tracks and splits where size is checked."""
    write_extended(tmp_path / "extended", 250)
    for code in ("deu", "fra"):
        write_laser(tmp_path / "tatoeba", code, made_pairs(code))
    for code in ("en", "de"):
        write_csv(tmp_path / "stsb" / f"stsb-{code}-dev.csv", made_rows(code, 1500))
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

    assert scores("sts2017-extended") == sts2017(Table(), data)
    german = scores("sts2017-extended", ["de"])
    assert list(german["tracks"]) == ["en-en", "en-de"]
    assert scores("sts2017") == sts2017(Table(), data, SEMEVAL_TRACKS)
    assert scores("stsb-multi-mt") == stsb_multilingual(Table(), data, split="dev")
    assert set(scores("stsb-multi-mt", ["en"], "dev")["tracks"]) == {"en"}
    assert scores("tatoeba") == retrieval_folder(Table(), data)
    assert set(scores("tatoeba", ["fr"])["tracks"]) == {"fra"}
    aligned = sts_folder(Table(), data / "sts", ["de", "en"], "test", "sick")
    assert scores("sick", None, "test") == aligned
    assert scores("sick") == sts_folder(Table(), data / "sts", ["de"], "dev", "sick")


def test_sets_for_mining_and_retrieval(tmp_path):
    bucc(tmp_path)
    expected = bucc_folder(Table(), tmp_path, ["de"])
    assert score_set(Table(), "bucc2018", tmp_path, ["de"]) == expected
    expected = bucc_folder(Table(), tmp_path, ["de"], reported_on="sample")
    assert score_set(Table(), "bucc2018", tmp_path, ["de"], "sample") == expected
    expected = bucc_folder(
        Table(), tmp_path, ["de"], tuned_on="sample", margin="distance"
    )
    options = {"tuned_on": "sample", "margin": "distance"}
    assert score_set(Table(), "bucc2018", tmp_path, ["de"], **options) == expected
    with pytest.raises(InputError, match="takes tuned_on, margin, engine.*: queries"):
        score_set(Table(), "bucc2018", tmp_path, ["de"], queries=3)
    with pytest.raises(InputError, match="fr-en"):
        score_set(Table(), "bucc2018", tmp_path / "bucc2018")
    for ending in ("en", "es"):
        lines = "".join(f"{ending} {i}\n" for i in range(5))
        (tmp_path / f"UNv1.0.en-es.{ending}").write_text(lines)
    found = score_set(Table(), "un", tmp_path, ["es"])
    assert found == un_folder(Table(), tmp_path, ["es"])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sts2018", (), r"no file `sts2018.dev.en.tsv.gz`.*mean `sts2017`\?"),
        ("sick", (None, "train"), "no file `sick.train.en.tsv.gz`"),
        ("sick", (["fr"],), r"sick\.dev\.fr\.tsv\.gz` does not exist"),
        ("sts2017", (None, "dev"), "`sts2017` has the parts test. Received: 'dev'"),
        ("stsb-multi-mt", (["fr"],), "lacks fr of .*part dev"),
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
    expected = retrieval_folder(encoder, data)["tracks"]
    assert found["tracks"] == pytest.approx(expected)
    found = json.loads(run("--sts", "sick", "--split", "test", "--json"))
    assert set(found["tracks"]) == {"de", "en", "en-de"} and found["pairs"] == 9
    shown = run("--set", "tatoeba", "--languages", "fr").split()
    assert shown[2] == "precision" and "fra" in shown and "deu" not in shown
    shutil.rmtree(data / "extended")
    write_semeval(data)
    message = run("--set", "sts2017-extended", code=2)
    assert message.startswith("Error: ") and "lacks en-de, en-fr, en-it" in message


def test_through_links_and_without_unfinished_downloads(data):
    expected = retrieval_folder(Table(), data / "tatoeba")
    folder = data / "linked"
    (folder / "sources").mkdir(parents=True)
    (folder / "tatoeba").symlink_to(data / "tatoeba")
    (folder / "circle").symlink_to(folder)
    half = folder / "downloads" / "tatoeba"
    half.mkdir(parents=True)
    (half / "tatoeba.spa-eng.eng").write_text("One\n")
    assert retrieval_folder(Table(), folder) == expected
