"""Scores against sentence-transformers' evaluators on the same vectors."""

import json
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from table_encoder import Table

from keras_msd.checks import InputError
from keras_msd.evaluate import retrieval, sts, sts_tracks, translation_accuracy

GOLDEN = Path(__file__).parent / "golden" / "evaluators"


@pytest.fixture(scope="module")
def golden():
    value = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
    vectors = load_file(GOLDEN / "vectors.safetensors")
    value["student"] = Table(zip(value["texts"], vectors["student"], strict=True))
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
    scores = translation_accuracy(golden["student"], golden["pairs"])
    for ours, theirs in {
        "accuracy": "mean_accuracy",
        "source_to_target": "src2trg_accuracy",
        "target_to_source": "trg2src_accuracy",
    }.items():
        assert scores[ours] / 100 == pytest.approx(expected[theirs], abs=1e-6)
    assert scores["pairs"] == 60 and scores["primary"] == "accuracy"
    found = retrieval(golden["student"], golden["pairs"])
    assert scores["accuracy"] == found["precision"]


def test_translation_needs_pairs():
    with pytest.raises(InputError, match="at least one pair"):
        translation_accuracy(Table(), [])
