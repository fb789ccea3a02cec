"""`keras-msd search`, and the threshold that it takes from a card."""

import json

import numpy as np
import pytest
from command_line import fails, result, run

from keras_msd import load_encoder
from keras_msd.evaluate import calibrate_threshold
from keras_msd.export import export
from keras_msd.testing import tiny_encoder, tiny_pairs

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
