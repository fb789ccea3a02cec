"""Numbers of the proof against NumPy, and what a missed threshold does."""

import json

import keras
import numpy as np
import plain_exporter
import pytest
from random_encoder import cosines
from scipy.stats import spearmanr

from keras_msd.checks import InputError
from keras_msd.export import FORMATS, ExportError, export, loaders_folder, read_card
from keras_msd.export.proof import (
    THRESHOLDS,
    limits_of,
    neighbours_kept,
    parity,
    prove,
    row_cosines,
)
from keras_msd.testing import tiny_encoder

pytestmark = pytest.mark.usefixtures("plain_format")
TEXTS = [
    "The cat sleeps.",
    "Ein Hund läuft.",
    "",
    "We drink coffee.",
    "ok",
    "La maison.",
]
ROWS = [
    (5.0, "The cat sleeps.", "A cat sleeps."),
    (0.0, "ok", "We drink coffee."),
    (3.0, "Ein Hund läuft.", "A dog runs."),
    (1.0, "La maison.", "ok"),
]


@pytest.fixture(scope="module")
def encoder(tokenizer):
    keras.utils.set_random_seed(7)
    return tiny_encoder(tokenizer, num_layers=0)


def far(text, size=1.0):
    """Move the vector of one sentence."""
    return lambda texts: np.outer([size * (one == text) for one in texts], np.ones(16))


def test_cosine_of_rows():
    ours = np.array([[3, 4], [0, 0], [1, 0], [1, 1]], np.float32)
    theirs = np.array([[3, 4], [0, 0], [0, 2], [np.nan, 1]], np.float32)
    assert row_cosines(ours, theirs).tolist() == [1, 1, 0, -np.inf]
    with pytest.raises(ExportError, match=r"shape \(4, 2\). Received: \(3, 2\)"):
        row_cosines(ours, theirs[:3])


def test_neighbours():
    angles = np.radians([0, 10, 50, 55])  # nearest: 1, 0, 3, 2
    ours = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert neighbours_kept(ours, 7 * ours) == 1
    angles = np.radians([0, 10, 25, 55])  # nearest: 1, 0, 1, 2
    theirs = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert neighbours_kept(ours, theirs) == 0.75
    assert neighbours_kept(ours[:1], theirs[:1]) == 1
    tied = np.array([[1, 0], [1, 0], [1, 0]], np.float64)
    assert neighbours_kept(tied, tied[::-1] + [[0, 0], [0, 1e-9], [0, 0]]) == 1


def test_parity_against_numpy():
    random = np.random.default_rng(0)
    ours = random.normal(size=(6, 4)).astype(np.float32)
    theirs = ours + random.normal(0, 0.1, (6, 4)).astype(np.float32)
    cosine = cosines(ours.astype(float), theirs.astype(float))
    found = parity(TEXTS, ours, theirs)
    assert found["min_cosine"] == pytest.approx(min(cosine), abs=1e-7)
    assert found["mean_cosine"] == pytest.approx(np.mean(cosine), abs=1e-7)
    assert found["worst"] == TEXTS[int(np.argmin(cosine))]
    assert found["largest_difference"] == pytest.approx(np.abs(ours - theirs).max())
    theirs[2, 1] = np.inf
    with pytest.raises(ExportError, match="NaN or infinity for ''"):
        parity(TEXTS, ours, theirs)


def test_the_document_has_these_thresholds():
    text = (loaders_folder() / "README.md").read_text(encoding="utf-8")
    for name, limits in THRESHOLDS.items():
        shown = f"| {f'`{name}`' if name else 'left out'} | {limits.min_cosine:g} |"
        shown += f" {100 * limits.min_neighbours:g} % |"
        shown += f" {100 * limits.max_length_change:.2g} % |"
        assert f"{shown} {limits.max_sts_loss:g} |" in text


def test_the_card_has_the_proof(encoder, tmp_path):
    export(encoder, tmp_path / "a", "plain", "int8", sentences=TEXTS, sts=ROWS)
    found = read_card(tmp_path / "a")["parity"]
    assert found["min_cosine"] == found["neighbours_kept"] == 1
    assert found["length_change"] == 0
    assert found["thresholds"] == {
        "min_cosine": 0.99,
        "min_neighbours": 0.9,
        "max_sts_loss": 0.3,
        "max_length_change": pytest.approx(np.tan(np.arccos(0.99)), abs=1e-6),
    }
    first, second = (encoder.encode([row[i] for row in ROWS]) for i in (1, 2))
    cosine = (first * second).sum(1)  # the encoder normalises
    expected = 100 * spearmanr(cosine, [row[0] for row in ROWS]).statistic
    assert found["sts"] == {
        "set": "given rows",
        "pairs": 4,
        "before": {"spearman": pytest.approx(expected, abs=1e-3)},
        "after": {"spearman": pytest.approx(expected, abs=1e-3)},
    }


def test_a_sentence_that_differs_is_named(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(plain_exporter, "difference", far("Ein Hund läuft."))
    given = {"sentences": TEXTS, "sts": ROWS}
    with pytest.raises(ExportError) as caught:
        export(encoder, tmp_path / "a", "plain", "int8", **given)
    message = str(caught.value)
    for part in ("(plain, int8)", "cosine 0.99.", "'Ein Hund läuft.'", "'fp16'"):
        assert part in message
    with pytest.raises(ExportError, match="versions of the libraries"):
        export(encoder, tmp_path / "a", "plain", **given)
    assert list(tmp_path.iterdir()) == []
    lenient = {"min_cosine": -1, "min_neighbours": 0, "max_sts_loss": 200}
    export(encoder, tmp_path / "a", "plain", **lenient, **given)
    assert read_card(tmp_path / "a")["parity"]["worst"] == "Ein Hund läuft."


def test_neighbours_and_lengths_that_change_fail():
    class Table:
        def __init__(self, *degrees, size=1.0):
            angles = np.radians(degrees)
            vectors = size * np.stack([np.cos(angles), np.sin(angles)], axis=1)
            self.vectors = dict(zip("abcd", vectors, strict=True))

        def encode(self, texts):
            return np.array([self.vectors[text] for text in texts])

    def proven(before, after, quantize, **given):
        limits, rows = limits_of(quantize, **given), [(1.0, "a", "b"), (0.0, "a", "c")]
        return prove(
            before, after, FORMATS["plain"], quantize, limits, "a b c d".split(), rows
        )

    before, after = Table(0, 10, 21, 90), Table(0, 12, 21, 90)  # b: from a to c
    with pytest.raises(ExportError, match=r"nearest neighbour of 90 % .* 75.0 %"):
        proven(before, after, "int8")
    found = proven(before, after, "int8", min_neighbours=0.75)
    assert found["neighbours_kept"] == found["thresholds"]["min_neighbours"] == 0.75
    longer = Table(0, 10, 21, 90, size=1.01)
    with pytest.raises(ExportError, match=r"as long as .* 0.45 %. Received: 1.00 %"):
        proven(before, longer, None)
    assert proven(before, longer, "fp16")["length_change"] == pytest.approx(0.01)


def test_weights_that_cannot_be_stored(tokenizer, tmp_path):
    given = {"sentences": TEXTS, "sts": ROWS, "min_neighbours": 0, "max_sts_loss": 200}
    broken = tiny_encoder(tokenizer)
    word = broken.weights()["embedding/word"]
    word[-1] = 1e5  # no sentence of the proof has this piece
    broken.set_weights(broken.weights() | {"embedding/word": word})
    export(broken, tmp_path / "full", "plain", **given)
    with pytest.raises(InputError, match=r"65504. Received: 100000 in `embedding/word"):
        export(broken, tmp_path / "a", "plain", "fp16", **given)
    word[-1] = np.nan
    broken.set_weights(broken.weights() | {"embedding/word": word})
    for quantize in (None, "int8"):
        with pytest.raises(InputError, match="NaN or infinity in `embedding/word`"):
            export(broken, tmp_path / "a", "plain", quantize, **given)
    assert not (tmp_path / "a").exists()


def test_lost_sts_is_named_and_an_earlier_artefact_stays(
    encoder, tmp_path, monkeypatch
):
    given = {"sentences": ["The train."], "sts": ROWS}
    export(encoder, tmp_path / "a", "plain", "int8", **given)
    before = (tmp_path / "a" / "card.json").read_bytes()
    # Opposite vectors: what was most alike is now least alike.
    monkeypatch.setattr(plain_exporter, "difference", far("A cat sleeps.", -100))
    with pytest.raises(ExportError) as caught:
        export(encoder, tmp_path / "a", "plain", "fp16", **given)
    score = json.loads(before)["parity"]["sts"]["before"]["spearman"]
    for part in (
        "lose at most 0.1 points of Spearman x 100 on given rows",
        f"{score:.2f} before",
        "=None",
    ):
        assert part in str(caught.value)
    assert (tmp_path / "a" / "card.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_requests_that_cannot_be_met(encoder, tmp_path):
    path = tmp_path / "a"
    for given, message in (
        ({"format": "frozen_pb"}, "`format` must be one of 'saved_model'"),
        ({"sentences": []}, "`sentences` must hold at least one"),
        ({"sentences": "one"}, "must be a list of sentences"),
        ({"min_cosine": -1.5}, "`min_cosine` must be at least -1. Received: .*-1.5"),
        ({"min_cosine": 1.5}, "agree with the encoder to cosine 1.5. Received: 1.0"),
        ({"max_sts_loss": -1}, "`max_sts_loss` must be at least 0"),
        ({"sts": [(1.0, "a", "b")]}, "gold scores must be finite and have two"),
    ):
        with pytest.raises(InputError, match=message):
            export(encoder, path, **{"format": "plain"} | given)
    assert list(tmp_path.iterdir()) == []
