import gzip
import json

import pytest
from command_line import run

from keras_msd.cli.search import read_sentences
from keras_msd.evaluate import mine, mine_paraphrases
from keras_msd.load import load_encoder
from keras_msd.testing import SENTENCES, tiny_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("encoder") / "saved"
    tiny_encoder(tokenizer).save(folder)
    return folder


@pytest.fixture
def files(tmp_path):
    """Two files with an empty line and a line twice; the second is packed."""
    pairs = SENTENCES[:4]
    first = [pairs[0][1], "", *(target for _, target, _ in pairs)]
    second = [*(source for source, _, _ in pairs), f" {pairs[0][0]} "]
    (tmp_path / "a.txt").write_text("\n".join(first) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\r\n".join(second))
    return tmp_path / "a.txt", tmp_path / "b.txt.gz"


def test_pairs(capsys, tmp_path, folder, files):
    command = (*files, "--encoder", folder)
    code, out, err = run(
        capsys, "mine", *command, "--k", 2, "--margin", "distance", "--json"
    )
    assert (code, err) == (0, "")
    result = json.loads(out)
    left, right = ([pair[side] for pair in SENTENCES[:4]] for side in (1, 0))
    expected = mine(load_encoder(folder), left, right, "distance", 2)
    lines = (1, 4, 5, 6)
    assert result["pairs"] == [
        {
            "score": score, "source": left[i], "target": right[j],
            "source_line": lines[i], "target_line": j + 1,
        }
        for score, i, j in expected
    ]  # fmt: skip
    assert (result["sources"], result["targets"]) == (4, 4)
    assert result["mined"] == len(expected) >= 2
    assert (result["margin"], result["k"], result["threshold"]) == ("distance", 2, None)

    _, out, _ = run(capsys, "mine", *command)
    expected = mine(load_encoder(folder), left, right)
    shown = [f"{s:.4f}  {left[i]}  |  {right[j]}" for s, i, j in expected]
    assert out.splitlines()[: len(shown)] == shown
    assert f"sources: 4\ntargets: 4\nmined: {len(expected)}\n" in out

    best, i, j = expected[0]
    for name in ("pairs.tsv", "pairs.tsv.gz"):
        path = tmp_path / "new" / name
        _, out, _ = run(capsys, "mine", *command, "--threshold", best, "--out", path)
        assert "mined: 1\n" in out and out.endswith(f"file: {path}\n")
        data = path.read_bytes()
        data = gzip.decompress(data) if name.endswith(".gz") else data
        assert data.decode() == f"{best:.6f}\t{left[i]}\t{right[j]}\n"


def test_lines_that_occur_again_or_are_empty(files):
    texts = [target for _, target, _ in SENTENCES[:4]]
    lines = dict(zip(texts, (1, 4, 5, 6), strict=True))
    assert read_sentences(files[0]) == lines


def test_mistakes(capsys, tmp_path, folder, files):
    tab, blank = tmp_path / "tab.txt", tmp_path / "blank.txt"
    tab.write_text("one\nA dog.\tEin Hund.\n")
    blank.write_text("\n \n")
    encoder = ("--encoder", folder)
    for arguments, words in {
        files: "--encoder",
        (*files, *encoder, "--margin", "ration"): "Did you mean `ratio`?",
        (*files, *encoder, "--k", "0"): "`k` must be at least 1",
        (*files, *encoder, "--out", tmp_path): "is a folder",
        (tmp_path / "c.txt", files[1], *encoder): "does not exist",
        (files[0], tab, *encoder): "line 2: a line must be one sentence, without a tab",
        (files[0], blank, *encoder): "must hold a sentence",
        (*files, "--encoder", tmp_path / "none"): "none",
    }.items():
        code, out, err = run(capsys, "mine", *arguments)
        assert (code, out) == (2, "")
        assert words in err


def test_paraphrases_in_one_file(capsys, folder, files):
    command = ("mine", files[0], "--encoder", folder, "--k", 2)
    code, out, err = run(capsys, *command, "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    texts = [target for _, target, _ in SENTENCES[:4]]
    expected = mine_paraphrases(load_encoder(folder), texts, 2)
    assert [(it["score"], it["source"], it["target"]) for it in result["pairs"]] == [
        (score, texts[i], texts[j]) for score, i, j in expected
    ]
    assert {it["source_line"] for it in result["pairs"]} <= {1, 4, 5, 6}
