"""`keras-msd index` and `search` on the command line."""

import json

import numpy as np
import pytest
from command_line import fails, result, run

from keras_msd import load_encoder
from keras_msd.checksums import sealed, unsealed
from keras_msd.evaluate import calibrate_threshold
from keras_msd.export import export
from keras_msd.files import write_json
from keras_msd.index.index import WHAT
from keras_msd.testing import tiny_encoder, tiny_pairs

ROWS = [(1.0, "one", "two"), (0.0, "cat", "dog")]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "saved"
    tiny_encoder().save(folder)
    return folder


@pytest.fixture
def place(tmp_path):
    texts = [pair.source for pair in tiny_pairs()]
    (tmp_path / "lines.txt").write_text("\n".join(texts), encoding="utf-8")
    (tmp_path / "faq.csv").write_text("id,text\n1,It rains.\n", encoding="utf-8")
    rows = [f"{pair.source}\t{pair.target}\n" for pair in tiny_pairs()]
    (tmp_path / "held.en-de.tsv").write_text("".join(rows), encoding="utf-8")
    return tmp_path


def test_index_then_search(capsys, model, place):
    index, lines = place / "i", place / "lines.txt"
    command = ("index", lines, place / "faq.csv", "--column", "text", "--model", model)
    made = result(capsys, *command, "--out", index)
    assert (made["files"], made["chunks"], made["threshold"]) == (2, 9, None)
    assert made["bytes"] == sum(file.stat().st_size for file in index.iterdir())
    found = result(capsys, "search", "--index", index, "It rains.", "--top", 9)
    encoder = load_encoder(model)
    texts = [*lines.read_text(encoding="utf-8").splitlines(), "It rains."]
    vectors = encoder.encode([*texts, "It rains."])
    expected = vectors[:-1] @ vectors[-1]
    assert found[0]["text"] == "It rains." and found[0]["cosine"] > 0.999
    cosines = {one["text"]: one["cosine"] for one in found}
    error = made["largest error of a cosine"]
    for text, cosine in zip(texts, expected, strict=True):
        assert abs(cosines[text] - cosine) <= error + 1e-6
    rain = [one for one in found if one["text"] == "It rains."]
    assert {"file": str(place / "faq.csv"), "line": 2}.items() <= rain[-1].items()
    _, out, _ = run(capsys, "search", "--index", index, "It rains.", "--model", model)
    assert "cosine" in out and "faq.csv:2" in out


def test_threshold_of_a_number_and_of_pairs(capsys, model, place):
    index, pairs = place / "i", place / "held.en-de.tsv"
    command = ("index", place / "lines.txt", "-m", model, "--out", index)
    search = ("search", "--index", index, "It rains.")
    result(capsys, *command)
    every = result(capsys, *search, "--top", 99)
    third = every[2]["cosine"]
    kept = result(capsys, *search, "--threshold", third - 1e-6)
    assert [one["cosine"] >= third for one in kept] == [True] * len(kept) and kept
    assert "has a threshold" in fails(capsys, *search, "--threshold", "card")
    assert "must be a number or card" in fails(capsys, *search, "--threshold", "high")

    threshold = result(capsys, *command, "--pairs", pairs)["threshold"]
    known = [(pair.source, pair.target) for pair in tiny_pairs()]
    expected = calibrate_threshold(load_encoder(model), known, name=pairs.name)
    assert threshold == expected and threshold["set"] == "held.en-de.tsv"
    meta = unsealed(json.loads((index / "index.json").read_text()), WHAT)
    meta["threshold"]["cosine"] = None
    write_json(index / "index.json", sealed(meta, WHAT))
    none = fails(capsys, *search, "--threshold", "card")
    assert "No cosine makes 95 % of the answers right on held.en-de.tsv" in none
    meta["threshold"]["cosine"] = third - 1e-6
    write_json(index / "index.json", sealed(meta, WHAT))
    assert result(capsys, *search, "--threshold", "card") == kept


def test_search_in_vectors_and_with_an_artefact(capsys, model, place, plain_format):
    vectors, lines = place / "v.npz", place / "lines.txt"
    result(capsys, "embed", model, "--input", lines, "--out", vectors)
    error = fails(capsys, "search", "--index", vectors, "x")
    assert "does not record its encoder" in error
    found = result(capsys, "search", "--index", vectors, "It rains.", "-m", model)
    old = result(capsys, "search", model, "It rains.", lines)
    assert [(one["cosine"], one["text"]) for one in found] == [
        (one["cosine"], one["sentence"]) for one in old
    ]
    threshold = {
        "cosine": old[1]["cosine"] - 0.02, "precision": 95.0, "recall": 80.0,
        "pairs": 8, "asked": 95.0, "set": "held | out",
    }  # fmt: skip
    art = export(
        load_encoder(model), place / "art", "plain", sentences=["one"], sts=ROWS,
        threshold=threshold,
    )  # fmt: skip
    text = (art / "README.md").read_text(encoding="utf-8")
    assert f"mean the same: {threshold['cosine']:.4f}. Measured on 8 pairs" in text
    card = result(capsys, "search", art, "It rains.", lines, "--threshold", "card")
    assert card == [one for one in old if one["cosine"] >= threshold["cosine"]]
    result(capsys, "index", lines, "-m", art, "--out", place / "i")
    search = ("search", "--index", place / "i", "It rains.")
    assert result(capsys, *search) == result(capsys, *search, "-m", model)
    few = result(capsys, *search, "--threshold", "card")
    assert (
        0
        < len(few)
        == sum(one["cosine"] >= threshold["cosine"] for one in result(capsys, *search))
    )


def test_export_calibrates(capsys, model, place, plain_format):
    pairs, art = place / "held.en-de.tsv", place / "art"
    run(capsys, "export", model, art, "--format", "plain", "--pairs", pairs)
    card = json.loads((art / "card.json").read_text())
    known = [(pair.source, pair.target) for pair in tiny_pairs()]
    expected = calibrate_threshold(load_encoder(model), known, name=pairs.name)
    assert card["threshold"] == expected


def test_what_cannot_be_searched(capsys, model, place):
    index, lines = place / "i", place / "lines.txt"
    usage = "Give ENCODER QUERY FILE, or QUERY and --index INDEX"
    assert usage in fails(capsys, "search", model, "It rains.")
    assert usage in fails(capsys, "search", model, "It rains.", lines, "--index", index)
    assert usage in fails(capsys, "search", model, "x", lines, "--model", model)
    assert "does not exist" in fails(capsys, "search", "--index", index, "x")
    copy = place / "copy"
    load_encoder(model).save(copy)
    result(capsys, "index", lines, "--model", copy, "--out", index)
    other = tiny_encoder()
    other.set_weights({k: v + 0.1 for k, v in other.weights().items()}, origin="here")
    other.save(place / "other")
    wrong = ("search", "--index", index, "x", "--model", place / "other")
    assert "built with another model" in fails(capsys, *wrong)
    copy.rename(place / "moved")
    error = fails(capsys, "search", "--index", index, "x")
    assert "does not exist" in error and "new path with `--model`" in error
    found = result(capsys, "search", "--index", index, "x", "-m", place / "moved")
    assert len(found) == 5
    (index / "vectors.i8").write_bytes(np.zeros(3, np.int8).tobytes())
    assert "changes in vectors.i8" in fails(capsys, "search", "--index", index, "x")


def test_queries_from_a_file(capsys, model, place):
    lines, asked = place / "lines.txt", place / "asked.txt"
    asked.write_text("It rains.\n\nA cat.\n", encoding="utf-8")
    result(capsys, "index", lines, "-m", model, "--out", place / "i")
    for given in ((model, lines), ("--index", place / "i")):
        several = result(capsys, "search", *given, "--queries", asked, "--top", 2)
        assert [one["query"] for one in several] == ["It rains.", "A cat."]
        for one in several:
            query = one["query"]
            words = (model, query, lines) if given[0] == model else (query, *given)
            assert one["matches"] == result(capsys, "search", *words, "--top", 2)
    _, out, _ = run(capsys, "search", model, lines, "--queries", asked, "--top", 1)
    assert out.index("Query: It rains.") < out.index("cosine") < out.index("A cat.")
    message = fails(capsys, "search", model, "x", lines, "--queries", asked)
    assert "Received: 3 words, --queries" in message and "in quotes" in message
