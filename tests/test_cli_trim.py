import gzip
import json

import pytest
from command_line import fails, run

from keras_msd.load import load_encoder
from keras_msd.models.trim import trim_vocabulary
from keras_msd.testing import SENTENCES, tiny_encoder


def trimmed(capsys, *arguments):
    code, out, _ = run(capsys, "trim", *arguments)
    assert code == 0
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("encoder") / "saved"
    tiny_encoder(tokenizer).save(folder)
    return folder


def test_texts_of_files(capsys, tmp_path, folder):
    texts = [target for _, target, _ in SENTENCES[:4]]
    (tmp_path / "a.txt").write_text("\n\n".join(texts[:2]) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "b.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(texts[2:]))
    files = ("--texts", tmp_path / "a.txt", "--texts", tmp_path / "b.gz")
    out = trimmed(capsys, folder, tmp_path / "out", *files, "--json")
    result = json.loads(out)
    assert result["texts"] == 4
    assert result["tokens_kept"] == result["texts_unchanged"] == 1
    made = load_encoder(tmp_path / "out")
    expected = trim_vocabulary(load_encoder(folder), texts)
    assert made.fingerprint == expected.fingerprint
    assert result["pieces_after"] == made.config.vocabulary_size < 90
    out = trimmed(capsys, folder, tmp_path / "out", *files, "--keep", "0.8")
    assert f"encoder: {tmp_path / 'out'}\n" in out and "pieces before: 90\n" in out
    smaller = load_encoder(tmp_path / "out")
    assert smaller.fingerprint == trim_vocabulary(made, texts, keep=0.8).fingerprint


def test_languages_of_a_folder(capsys, tmp_path, folder):
    rows = [f"{source}\t{target}\n" for source, target, code in SENTENCES]
    corpus = tmp_path / "data" / "parallel" / "train" / "small.en-de.tsv"
    corpus.parent.mkdir(parents=True)
    corpus.write_text("".join(rows), encoding="utf-8")
    data = ("--languages", "de", "--data", tmp_path / "data", "--keep", "60")
    out = trimmed(capsys, folder, tmp_path / "out", *data, "--json")
    assert json.loads(out)["texts"] == len(SENTENCES)
    assert load_encoder(tmp_path / "out").tokenizer.vocabulary_size == 60


def test_mistakes(capsys, tmp_path, folder):
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
        assert words in fails(capsys, "trim", folder, tmp_path / "out", *arguments)
    assert not (tmp_path / "out").exists()
    before = load_encoder(folder).fingerprint
    (tmp_path / "same").symlink_to(folder)
    for same in (folder, folder / "tokenizer" / "..", tmp_path / "same"):
        assert "is the encoder itself" in fails(capsys, "trim", folder, same, *given)
    assert load_encoder(folder).fingerprint == before
    error = fails(capsys, "trim", folder, tmp_path, *given)
    assert "exists and is not an encoder" in error
