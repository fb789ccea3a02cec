"""Artefacts on the command line: made, scored, searched."""

import gzip
import json
import zlib

import keras
import numpy as np
import plain_exporter
import pytest
from command_line import fails, run

from keras_msd import load_encoder
from keras_msd.export import FORMATS
from keras_msd.testing import tiny_encoder

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(autouse=True)
def plain(monkeypatch, plain_format):
    """Add a format without a runtime."""
    monkeypatch.setattr(plain_exporter, "difference", None)


@pytest.fixture(scope="module")
def encoder_folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "saved"
    keras.utils.set_random_seed(7)
    tiny_encoder(tokenizer).save(folder)
    return folder


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "sts").mkdir(parents=True)
    for language in ("en", "de"):
        rows = [f"{i}\tone {i}\ttwo {'a' * i}" for i in range(5)]
        path = folder / "sts" / f"examples.dev.{language}.tsv.gz"
        with gzip.open(path, "wt") as file:
            file.write("\n".join(rows) + "\n")
    return folder


def test_export_then_embed_search_evaluate(capsys, encoder_folder, data, tmp_path):
    art = tmp_path / "art"
    code, out, _ = run(
        capsys, "export", encoder_folder, art, "--format", "plain", "--quantize",
        "int8", "--languages", "de,fr", "--data", data, "--sts", "examples",
        "--license", "MIT", "--json",
    )  # fmt: skip
    shown, card = json.loads(out), json.loads((art / "card.json").read_text())
    assert code == 0 and shown["artefact"] == str(art)
    assert shown["parity"] == card["parity"] and shown["bytes"] == card["bytes"]
    assert card["languages"] == ["de", "fr"] and card["license"] == "MIT"
    # There is no French file of this set.
    assert card["parity"]["sts"]["set"] == "examples dev in en, de"
    assert set(card["parity"]["sts"]["before"]) == {"cross_lingual", "monolingual"}

    for source in (art, art / "model.bin"):
        _, out, _ = run(capsys, "embed", source, "A dog.", "--json")
        expected = load_encoder(encoder_folder).encode(["A dog."])
        np.testing.assert_allclose(json.loads(out)["vectors"], expected, atol=1e-6)
    lines = tmp_path / "lines.txt"
    lines.write_text("A dog runs.\nThe house is old.\n", encoding="utf-8")
    command = ("search", art, "The house is old.", lines, "--top", 1, "--json")
    assert json.loads(run(capsys, *command)[1])[0]["place"] == 1
    command = ("--data", data, "--languages", "de", "--sts", "examples", "--json")
    _, ours, _ = run(capsys, "evaluate", encoder_folder, *command)
    _, theirs, _ = run(capsys, "evaluate", art / "model.bin", *command)
    assert json.loads(ours) == json.loads(theirs)


def test_thresholds(capsys, encoder_folder, tmp_path, monkeypatch):
    def noise(texts):
        seeds = (zlib.crc32(text.encode()) for text in texts)
        return np.stack([np.random.default_rng(it).normal(0, 5, 16) for it in seeds])

    monkeypatch.setattr(plain_exporter, "difference", noise)
    command = (
        "export", encoder_folder, tmp_path / "art", "--format", "plain",
        "--quantize", "fp16", "--min-cosine", -1, "--min-neighbours", 0,
    )  # fmt: skip
    assert "points of Spearman x 100" in fails(capsys, *command)
    assert not (tmp_path / "art").exists()
    code, out, _ = run(capsys, *command, "--max-sts-loss", 200, "--quantize", "int8")
    assert code == 0 and "format: plain\nquantize: int8" in out
    assert "set: sentences of Tatoeba" in out
    assert "cosine 0.5" in fails(capsys, *command, "--min-cosine", 0.5)
    assert "neighbours kept" in out


def test_what_cannot_be_exported(capsys, encoder_folder, tmp_path):
    art = tmp_path / "art"
    error = fails(capsys, "export", encoder_folder, art, "--format", "tflite")
    assert "`format` must be one of" in error and "litert" in error
    command = ("export", encoder_folder, art, "--format", "plain")
    assert "one of None, 'fp16'" in fails(capsys, *command, "--quantize", "int4")
    missing = fails(capsys, *command, "--data", tmp_path)
    assert f"{tmp_path / 'sts'}" in missing
    assert not art.exists()


def test_the_help_names_every_format(capsys):
    _, out, _ = run(capsys, "export", "--help")
    others = set(FORMATS) - {"plain"}  # which other tests here add
    assert [name for name in others if name not in out] == []
