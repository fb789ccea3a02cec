"""Retrieval of translations against loops and sentence-transformers' evaluators."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from table_encoder import Table

from keras_msd.checks import InputError
from keras_msd.evaluate import (
    mse,
    retrieval,
    retrieval_languages,
    score_set,
    sts,
    sts_tracks,
)


def brute_force(encoder, queries, sentences):
    hits = 0
    for row, query in enumerate(queries):
        best, place = -2.0, -1
        for column, sentence in enumerate(sentences):
            a, b = encoder.vectors[query], encoder.vectors[sentence]
            a, b = np.asarray(a, float), np.asarray(b, float)
            cosine = round(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)), 6)
            if cosine > best:  # the first maximum stays
                best, place = cosine, column
        hits += place == row
    return 100 * hits / len(queries)


def check(scores, encoder, pairs):
    sources, targets = [p[0] for p in pairs], [p[1] for p in pairs]
    forward = brute_force(encoder, sources, targets)
    backward = brute_force(encoder, targets, sources)
    assert scores["source_to_target"] == pytest.approx(forward, abs=1e-4)
    assert scores["target_to_source"] == pytest.approx(backward, abs=1e-4)
    assert scores["precision"] == pytest.approx((forward + backward) / 2, abs=1e-4)
    assert scores["pairs"] == len(pairs) and scores["primary"] == "precision"
    return forward, backward


def test_hand_made_directions_differ():
    # Both queries are nearest to y0; each target has its own nearest query.
    encoder = Table({"x0": [1, 0], "x1": [1, 1], "y0": [2, 1], "y1": [-1, 3]})
    scores = retrieval(encoder, [("x0", "y0"), ("x1", "y1")])
    assert scores["source_to_target"] == 50.0
    assert scores["precision"] == (50.0 + scores["target_to_source"]) / 2
    check(scores, encoder, [("x0", "y0"), ("x1", "y1")])


def test_first_of_equal_maxima_wins():
    encoder = Table({"x0": [1, 0], "x1": [1, 0], "y0": [3, 0], "y1": [5, 0]})
    scores = retrieval(encoder, [("x0", "y0"), ("x1", "y1")])
    assert scores["precision"] == 50.0


def test_duplicates_count_as_errors():
    vectors = {"x0": [1, 0, 0], "x1": [0, 1, 0], "y": [1, 1, 0], "x2": [0, 0, 1]}
    encoder = Table(vectors | {"z": [0, 0, 1]})
    pairs = [("x0", "y"), ("x1", "y"), ("x2", "z")]
    scores = retrieval(encoder, pairs)
    # x1's translation is found, but at its first place; y looks like x0 and x1 alike.
    assert scores["source_to_target"] == pytest.approx(200 / 3, abs=1e-4)
    assert scores["target_to_source"] == pytest.approx(200 / 3, abs=1e-4)
    check(scores, encoder, pairs)
    # By text x1's translation is right; y has two, and only the first is found.
    by_text = retrieval(encoder, pairs, match="text")
    assert by_text["source_to_target"] == 100.0
    assert by_text["target_to_source"] == pytest.approx(200 / 3, abs=1e-4)
    with pytest.raises(InputError, match="`match` must be one of 'row', 'text'"):
        retrieval(encoder, pairs, match="index")


def test_random_vectors_over_several_blocks_equal_brute_force(monkeypatch):
    monkeypatch.setattr(sys.modules["keras_msd.evaluate.nearest"], "BLOCK", 7)
    random = np.random.default_rng(3)
    pairs = [(f"s{i % 27}", f"t{i % 29}", "de") for i in range(30)]
    encoder = Table(dim=4)
    for i in range(27):
        base = random.normal(size=4)
        encoder.vectors[f"s{i}"] = base
        encoder.vectors[f"t{i}"] = base + 0.4 * random.normal(size=4)
    scores = retrieval(encoder, pairs)
    assert len(encoder.seen) == len(set(encoder.seen)) == 56
    forward, backward = check(scores, encoder, pairs)
    # As in sentence-transformers 6.2: the text found is the text of that row.
    units = [
        np.array([encoder.vectors[pair[side]] for pair in pairs]) for side in (0, 1)
    ]
    units = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in units]
    cosines = np.round(units[0] @ units[1].T, 10)
    by_text = retrieval(encoder, pairs, match="text")
    for side, (way, matrix) in enumerate(
        {"target_to_source": cosines.T, "source_to_target": cosines}.items()
    ):
        texts = [pair[side] for pair in pairs]
        right = [
            texts[a] == text for a, text in zip(matrix.argmax(1), texts, strict=True)
        ]
        assert by_text[way] == pytest.approx(100 * np.mean(right), abs=1e-4)
    assert 20 < forward < 95 and 20 < backward < 95 and forward != backward


def test_languages_are_averaged_and_shared_sentences_encoded_once(tmp_path):
    files = {
        "deu": [("hello", "hallo"), ("cat", "Katze"), ("dog", "Hund")],
        "nld": [("hello", "hallo"), ("dog", "hond")],
    }
    for code, rows in files.items():
        text = "".join(f"{a}\t{b}\n" for a, b in rows)
        (tmp_path / f"tatoeba.{code}-eng.tsv.gz").write_bytes(
            gzip.compress(text.encode())
        )
    encoder = Table(dim=2, seed=5)
    scores = score_set(encoder, "tatoeba", tmp_path, ["nld", "deu"])
    assert len(encoder.seen) == len(set(encoder.seen)) == 7
    single = {code: retrieval(encoder, rows) for code, rows in files.items()}
    assert scores["tracks"] == {c: s["precision"] for c, s in single.items()}
    for key in ("precision", "source_to_target", "target_to_source"):
        mean = (single["deu"][key] + single["nld"][key]) / 2
        assert scores[key] == pytest.approx(mean, abs=1e-4)
    assert scores["pairs"] == 5
    assert scores == retrieval_languages(encoder, files)


def test_missing_and_three_column_files(tmp_path):
    with pytest.raises(InputError, match=r"lacks deu of the Tatoeba test set"):
        score_set(Table(), "tatoeba", tmp_path, ["deu"])
    path = tmp_path / "tatoeba.deu-eng.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\na\tb\tc\n"))
    with pytest.raises(InputError, match=r"line 2: .* 2 columns.*Received: 3"):
        score_set(Table(), "tatoeba", tmp_path, ["deu"])
    with pytest.raises(InputError, match="does not exist. Give the path of a folder"):
        score_set(Table(), "tatoeba", tmp_path / "absent", ["deu"])


def test_nothing_to_score_is_an_error():
    with pytest.raises(InputError, match="at least one pair"):
        retrieval(Table(), [])
    with pytest.raises(InputError, match="`languages` must be at least 1"):
        retrieval_languages(Table(), {})
    broken = Table({"a": [np.nan, 1], "b": [1, 1]})
    with pytest.raises(InputError, match="must be finite"):
        retrieval(broken, [("a", "b")])


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
