"""`keras-msd export`, what can be done with the artefact, and `keras-msd trim`."""

import json
from itertools import chain

import keras
import numpy as np
import pytest
from command_line import fails, result, run
from small_recipe import write_rows

from keras_msd import load_encoder
from keras_msd.checks import InputError
from keras_msd.export import FORMATS
from keras_msd.models.trim import trim_vocabulary
from keras_msd.testing import SENTENCES, tiny_encoder

pytestmark = pytest.mark.usefixtures("no_graphs", "plain_format")


@pytest.fixture(scope="module")
def model(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "saved"
    keras.utils.set_random_seed(7)
    tiny_encoder(tokenizer, num_layers=0).save(folder)
    return folder


@pytest.fixture
def data(tmp_path):
    rows = [(i, f"one {i}", f"two {'a' * i}") for i in range(5)]
    for language in ("en", "de"):
        write_rows(tmp_path / f"data/sts/examples.dev.{language}.tsv.gz", rows)
    return tmp_path / "data"


def test_export_then_embed_search_evaluate(capsys, model, data, tmp_path):
    art = tmp_path / "art"
    code, out, _ = run(
        capsys, "export", model, art, "--format", "plain", "--quantize",
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
        expected = load_encoder(model).encode(["A dog."])
        np.testing.assert_allclose(json.loads(out)["vectors"], expected, atol=1e-6)
    lines = tmp_path / "lines.txt"
    lines.write_text("A dog runs.\nThe house is old.\n", encoding="utf-8")
    command = ("search", art, "The house is old.", lines, "--top", 1, "--json")
    assert json.loads(run(capsys, *command)[1])[0]["place"] == 1
    command = ("--data", data, "--languages", "de", "--sts", "examples", "--json")
    _, ours, _ = run(capsys, "evaluate", model, *command)
    _, theirs, _ = run(capsys, "evaluate", art / "model.bin", *command)
    assert json.loads(ours) == json.loads(theirs)


def test_limits_are_passed_on(capsys, model, tmp_path, monkeypatch):
    command = ("export", model, tmp_path / "art", "--format", "plain")
    given = {"min_cosine": -1.0, "min_neighbours": 0.0, "max_sts_loss": 200.0}
    taken = {}

    def take(encoder, path, **options):
        taken.update(options)
        raise InputError("taken")

    monkeypatch.setattr("keras_msd.export.export", take, raising=False)
    options = {f"--{name.replace('_', '-')}": it for name, it in given.items()}
    assert "taken" in fails(capsys, *command, *chain.from_iterable(options.items()))
    assert given.items() <= taken.items()


def test_what_cannot_be_exported(capsys, model, tmp_path):
    art = tmp_path / "art"
    command = ("export", model, art, "--format", "plain")
    assert "one of None, 'fp16'" in fails(capsys, *command, "--quantize", "int4")
    missing = fails(capsys, *command, "--data", tmp_path)
    assert f"{tmp_path / 'sts'}" in missing
    assert not art.exists()


def test_the_help_names_every_format(capsys):
    _, out, _ = run(capsys, "export", "--help")
    others = set(FORMATS) - {"plain"}  # which other tests here add
    assert [name for name in others if name not in out] == []


def test_trim_to_texts_of_files(capsys, tmp_path, model):
    texts = [target for _, target, _ in SENTENCES[:4]]
    write_rows(tmp_path / "a.txt", [(text,) for text in (texts[0], "", texts[1])])
    write_rows(tmp_path / "b.gz", [(text,) for text in texts[2:]])
    files = ("--texts", tmp_path / "a.txt", "--texts", tmp_path / "b.gz")
    found = result(capsys, "trim", model, tmp_path / "out", *files)
    assert found["texts"] == 4
    assert found["tokens_kept"] == found["texts_unchanged"] == 1
    made = load_encoder(tmp_path / "out")
    expected = trim_vocabulary(load_encoder(model), texts)
    assert made.fingerprint == expected.fingerprint
    assert found["pieces_after"] == made.config.vocabulary_size < 90
    command = ("trim", model, tmp_path / "out", *files, "--keep", "0.8")
    _, out, _ = run(capsys, *command)
    assert f"encoder: {tmp_path / 'out'}\n" in out and "pieces before: 90\n" in out
    smaller = load_encoder(tmp_path / "out")
    assert smaller.fingerprint == trim_vocabulary(made, texts, keep=0.8).fingerprint


def test_trim_to_languages_of_a_folder(capsys, tmp_path, model):
    rows = [pair[:2] for pair in SENTENCES]
    write_rows(tmp_path / "data/parallel/train/small.en-de.tsv", rows)
    data = ("--languages", "de", "--data", tmp_path / "data", "--keep", "60")
    found = result(capsys, "trim", model, tmp_path / "out", *data)
    assert found["texts"] == len(SENTENCES)
    assert load_encoder(tmp_path / "out").tokenizer.vocabulary_size == 60


def test_what_cannot_be_trimmed(capsys, tmp_path, model):
    texts = tmp_path / "a.txt"
    texts.write_text("A dog runs.\n")
    given, languages = ("--texts", texts), ("--languages", "de")
    data = ("--data", tmp_path)
    for arguments, words in {
        (): "Give either --texts",
        languages: "Give either --texts",
        data: "Give either --texts",
        (*given, *languages): "Give either --texts",
        (*given, "--keep", "many"): "`--keep` must be a number",
        (*given, "--keep", "2"): "`keep` must be at least",
        (*languages, *data): "does not exist",
    }.items():
        assert words in fails(capsys, "trim", model, tmp_path / "out", *arguments)
    assert not (tmp_path / "out").exists()
    before = load_encoder(model).fingerprint
    (tmp_path / "same").symlink_to(model)
    for same in (
        model,
        model / "tokenizer" / "..",
        tmp_path / "same",
    ):
        assert "is the encoder itself" in fails(capsys, "trim", model, same, *given)
    assert load_encoder(model).fingerprint == before
    error = fails(capsys, "trim", model, tmp_path, *given)
    assert "exists and is not an encoder" in error
