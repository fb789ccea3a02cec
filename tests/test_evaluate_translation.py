"""Scores against sentence-transformers' evaluators on the same vectors."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from table_encoder import Table

from keras_msd.checks import InputError
from keras_msd.evaluate import mse, retrieval, sts, sts_tracks

GOLDEN = Path(__file__).parent / "golden" / "evaluators"


@pytest.fixture(scope="module")
def golden():
    value = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
    vectors = load_file(GOLDEN / "vectors.safetensors")
    value["student"] = Table(zip(value["texts"], vectors["student"], strict=True))
    value["teacher"] = Table(zip(value["guided"], vectors["teacher"], strict=True))
    return value


def test_similarity_as_sentence_transformers_has_it(golden):
    expected = golden["expected"]["sts"]["spearman_cosine"]
    rows = golden["rows"]
    assert len(set(map(tuple, rows))) < len(rows)  # pairs that occur twice
    scores = sts(golden["student"], rows)
    assert scores["spearman"] / 100 == pytest.approx(expected, abs=1e-6)
    halves = {"a": rows, "b": rows[:40]}
    tracks = sts_tracks(golden["student"], halves)
    assert tracks == {
        name: sts(golden["student"], own)["spearman"] for name, own in halves.items()
    }


def test_translation_as_sentence_transformers_has_it(golden):
    expected = golden["expected"]["translation"]
    scores = retrieval(golden["student"], golden["pairs"], match="text")
    for ours, theirs in {
        "precision": "mean_accuracy",
        "source_to_target": "src2trg_accuracy",
        "target_to_source": "trg2src_accuracy",
    }.items():
        assert scores[ours] / 100 == pytest.approx(expected[theirs], abs=1e-6)
    assert scores["pairs"] == 60 and scores["primary"] == "precision"
    found = retrieval(golden["student"], golden["pairs"])
    assert scores["precision"] == found["precision"]


def test_mse_as_sentence_transformers_has_it(golden):
    sources, targets = zip(*golden["pairs"], strict=True)
    guides = golden["teacher"].encode(list(sources))
    scores = mse(golden["student"], guides, list(targets))
    expected = golden["expected"]["mse"]["negative_mse"]
    assert scores["negative_mse"] / 100 == pytest.approx(expected / 100, abs=1e-6)
    assert scores["mse"] == -scores[scores["primary"]] and scores["sentences"] == 60


def test_mse_by_hand():
    encoder = Table({"a": [1, 2], "b": [0, -1]})
    scores = mse(encoder, np.array([[1, 0], [3, -1]]), iter(["a", "b"]))
    assert scores["mse"] == 100 * (0 + 4 + 9 + 0) / 4


@pytest.mark.parametrize(
    ("guides", "texts", "message"),
    [
        (np.zeros((1, 2)), ["a", "b"], r"teacher \(1, 2\), encoder \(2, 2\)"),
        (np.zeros((2, 3)), ["a", "b"], r"teacher \(2, 3\), encoder \(2, 2\)"),
        (np.full((2, 2), np.nan), ["a", "b"], "Received: NaN or infinity"),
        (np.zeros((2, 2)), ["a", "broken"], "for 1 of 2 sentences, the first 'broken'"),
        (np.zeros((1, 2)), "a", "must be a list"),
        (np.zeros((0, 2)), [], r"teacher \(0, 2\)"),
    ],
)
def test_mse_of_what_does_not_fit(guides, texts, message):
    class Empty(Table):
        def encode(self, texts):
            return super().encode(texts) if texts else np.zeros((0, 2))

    encoder = Empty({"a": [1, 2], "b": [0, -1], "broken": [np.inf, 0]}, dim=2)
    with pytest.raises(InputError, match=message):
        mse(encoder, guides, texts)


def test_translation_needs_pairs():
    with pytest.raises(InputError, match="at least one pair"):
        retrieval(Table(), [])
