"""`keras-msd embed`, `search` with the threshold of a card, and `mine`."""

import gzip
import json

import numpy as np
import pytest
from command_line import fails, result, run
from small_recipe import write_rows

from keras_msd import load_encoder
from keras_msd.evaluate import calibrate_threshold, mine, mine_paraphrases
from keras_msd.export import export
from keras_msd.testing import SENTENCES, tiny_encoder, tiny_pairs

pytestmark = pytest.mark.usefixtures("no_graphs")

ROWS = [(1.0, "one", "two"), (0.0, "cat", "dog")]
QUERY = "It rains."


@pytest.fixture(scope="module")
def model(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("encoder") / "saved"
    tiny_encoder(tokenizer, num_layers=0).save(folder)
    return folder


@pytest.fixture
def place(tmp_path):
    texts = [pair.source for pair in tiny_pairs()]
    lines = [texts[0], "", *texts[1:]]
    (tmp_path / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    write_rows(tmp_path / "held.en-de.tsv", [pair[:2] for pair in tiny_pairs()])
    return tmp_path


def test_embed(capsys, model, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("The cat sleeps.\n", encoding="utf-8")
    command = ("embed", model, "A dog.", "--input", lines)
    vectors = np.array(result(capsys, *command)["vectors"])
    assert vectors.shape == (2, 16)
    run(capsys, *command, "--out", tmp_path / "v.npz")
    with np.load(tmp_path / "v.npz") as file:
        assert file["text"].tobytes() == b"A dog.The cat sleeps."
        np.testing.assert_allclose(file["vectors"], vectors, atol=1e-6)
    short = result(capsys, *command, "--truncate-dim", 3)["vectors"]
    np.testing.assert_allclose(short, vectors[:, :3], atol=1e-5)
    assert "at most 16" in fails(capsys, *command, "--truncate-dim", 17)
    assert "nothing to embed" in fails(capsys, "embed", model)
    assert "is a folder" in fails(capsys, *command, "--out", tmp_path)
    assert lines.is_file()
    asking = load_encoder(model, prompts={"query": "A cat. "})
    asking.save(tmp_path / "asking")
    command_of, options = ("embed", tmp_path / "asking"), ("--prompt-name", "query")
    found = result(capsys, *command_of, "A dog.", *options)
    assert found["vectors"] == result(capsys, *command_of, "A cat. A dog.")["vectors"]
    assert "'document'" in fails(capsys, *command_of, "a", options[0], "x")
    known = tmp_path / "known.npz"
    np.savez(known, sentences=np.array(["a"]), vectors=np.ones((1, 4), "float32"))
    assert "without prompts" in fails(capsys, "embed", known, "a", *options)
    lines.write_bytes(b"good\nbad \xff\n")
    error = fails(capsys, *command)
    assert "line 2: text must be UTF-8. Received: byte 0xff at position 5" in error


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
    kept = [one for one in every if one["cosine"] >= third]
    assert len(kept) < len(every)
    assert result(capsys, *search, "--threshold", third) == kept
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
    assert result(capsys, *search) == kept
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


@pytest.fixture
def files(tmp_path):
    """Two files with an empty line and a line twice; the second is packed."""
    pairs = SENTENCES[:4]
    first = [pairs[0][1], "", *(target for _, target, _ in pairs)]
    second = [*(source for source, _, _ in pairs), f" {pairs[0][0]} "]
    write_rows(tmp_path / "a.txt", [(text,) for text in first])
    write_rows(tmp_path / "b.txt.gz", [(f"{text}\r",) for text in second])
    return tmp_path / "a.txt", tmp_path / "b.txt.gz"


def test_pairs(capsys, tmp_path, model, files):
    command = (*files, "--encoder", model)
    found = result(capsys, "mine", *command, "--k", 2, "--margin", "distance")
    left, right = ([pair[side] for pair in SENTENCES[:4]] for side in (1, 0))
    expected = mine(load_encoder(model), left, right, "distance", 2)
    lines = (1, 4, 5, 6)
    assert found["pairs"] == [
        {
            "score": score, "source": left[i], "target": right[j],
            "source_line": lines[i], "target_line": j + 1,
        }
        for score, i, j in expected
    ]  # fmt: skip
    assert (found["sources"], found["targets"]) == (4, 4)
    assert found["mined"] == len(expected) >= 2
    assert (found["margin"], found["k"], found["threshold"]) == ("distance", 2, None)

    _, out, _ = run(capsys, "mine", *command)
    expected = mine(load_encoder(model), left, right)
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


def test_mistakes(capsys, tmp_path, model, files):
    tab, blank = tmp_path / "tab.txt", tmp_path / "blank.txt"
    tab.write_text("one\nA dog.\tEin Hund.\n")
    blank.write_text("\n \n")
    encoder = ("--encoder", model)
    for arguments, words in {
        files: "--encoder",
        (*files, *encoder, "--out", tmp_path): "is a folder",
        (tmp_path / "c.txt", files[1], *encoder): "does not exist",
        (files[0], tab, *encoder): "line 2: a line must be one sentence, without a tab",
        (files[0], blank, *encoder): "must hold a sentence",
        (*files, "--encoder", tmp_path / "none"): "none",
    }.items():
        assert words in fails(capsys, "mine", *arguments)


def test_paraphrases_in_one_file(capsys, model, files):
    found = result(capsys, "mine", files[0], "--encoder", model, "--k", 2)
    texts = [target for _, target, _ in SENTENCES[:4]]
    expected = mine_paraphrases(load_encoder(model), texts, 2)
    assert [(it["score"], it["source"], it["target"]) for it in found["pairs"]] == [
        (score, texts[i], texts[j]) for score, i, j in expected
    ]
    assert {it["source_line"] for it in found["pairs"]} <= {1, 4, 5, 6}
