"""`keras-msd search` with the threshold of a card, and `keras-msd mine`."""

import gzip
import json

import numpy as np
import pytest
from command_line import fails, result, run

from keras_msd import load_encoder
from keras_msd.cli.search import read_sentences
from keras_msd.evaluate import calibrate_threshold, mine, mine_paraphrases
from keras_msd.export import export
from keras_msd.testing import SENTENCES, tiny_encoder, tiny_pairs

pytestmark = pytest.mark.usefixtures("no_graphs")

ROWS = [(1.0, "one", "two"), (0.0, "cat", "dog")]
QUERY = "It rains."


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "saved"
    tiny_encoder().save(folder)
    return folder


@pytest.fixture
def place(tmp_path):
    texts = [pair.source for pair in tiny_pairs()]
    lines = [texts[0], "", *texts[1:]]
    (tmp_path / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    rows = [f"{pair.source}\t{pair.target}\n" for pair in tiny_pairs()]
    (tmp_path / "held.en-de.tsv").write_text("".join(rows), encoding="utf-8")
    return tmp_path


def test_search(capsys, model, place):
    lines = place / "lines.txt"
    texts = lines.read_text(encoding="utf-8").splitlines()
    vectors = load_encoder(model).encode([*texts, QUERY], normalize=True)
    cosines = vectors[:-1] @ vectors[-1]
    expected = [row for row in np.argsort(-cosines, kind="stable") if texts[row]]
    found = result(capsys, "search", model, QUERY, lines, "--top", 99)
    assert [one["place"] for one in found] == expected
    assert [one["sentence"] for one in found] == [texts[row] for row in expected]
    assert [one["cosine"] for one in found] == pytest.approx(
        cosines[expected], abs=1e-6
    )
    _, out, _ = run(capsys, "search", model, QUERY, lines, "--top", 1)
    first = expected[0]
    words = [f"{cosines[first]:.4f}", str(first + 1), *texts[first].split()]
    assert out.splitlines()[-1].split() == words


def test_threshold(capsys, model, place, plain_format):
    lines = place / "lines.txt"
    search = ("search", model, QUERY, lines)
    every = result(capsys, *search)
    third = every[2]["cosine"]
    assert result(capsys, *search, "--threshold", third) == every[:3]
    assert "card with a threshold" in fails(capsys, *search, "--threshold", "card")
    assert "must be a number or card" in fails(capsys, *search, "--threshold", "high")
    threshold = {
        "cosine": third - 1e-4, "precision": 95.0, "recall": 80.0, "pairs": 8,
        "asked": 95.0, "set": "held | out",
    }  # fmt: skip
    for cosine, name in ((third - 1e-4, "art"), (None, "unreached")):
        found = threshold | {"cosine": cosine}
        given = {"sentences": ["one"], "sts": ROWS, "threshold": found}
        export(load_encoder(model), place / name, "plain", **given)
    text = (place / "art/README.md").read_text(encoding="utf-8")
    assert f"mean the same: {third - 1e-4:.4f}. Measured on 8 pairs" in text
    search = ("search", place / "art", QUERY, lines, "--threshold", "card")
    assert result(capsys, *search) == every[:3]
    none = fails(capsys, "search", place / "unreached", *search[2:])
    assert "No cosine makes 95 % of the answers right on held | out" in none


def test_export_calibrates(capsys, model, place, plain_format):
    pairs, art = place / "held.en-de.tsv", place / "art"
    run(capsys, "export", model, art, "--format", "plain", "--pairs", pairs)
    card = json.loads((art / "card.json").read_text())
    known = [(pair.source, pair.target) for pair in tiny_pairs()]
    expected = calibrate_threshold(load_encoder(model), known, name=pairs.name)
    assert card["threshold"] == expected


def test_queries_from_a_file(capsys, model, place):
    lines, asked = place / "lines.txt", place / "asked.txt"
    asked.write_text("It rains.\n\nA cat.\n", encoding="utf-8")
    given = (model, lines, "--queries", asked)
    several = result(capsys, "search", *given, "--top", 2)
    assert [one["query"] for one in several] == ["It rains.", "A cat."]
    for one in several:
        alone = result(capsys, "search", model, one["query"], lines, "--top", 2)
        assert one["matches"] == alone
    _, out, _ = run(capsys, "search", *given, "--top", 1)
    assert out.index("Query: It rains.") < out.index("cosine") < out.index("A cat.")


def test_wrong_number_of_words(capsys, model, place):
    lines = place / "lines.txt"
    message = fails(capsys, "search", model, "It", "rains.", lines)
    assert "Give ENCODER QUERY FILE" in message and "Received: 4 words." in message
    message = fails(capsys, "search", model, "x", lines, "--queries", lines)
    assert "Received: 3 words, --queries" in message and "in quotes" in message


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
