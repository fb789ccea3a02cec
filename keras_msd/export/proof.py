"""The proof that ends an export: the artefact against its encoder, in its runtime."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_msd import checks
from keras_msd.evaluate.sts import sts as score_rows
from keras_msd.evaluate.sts import sts_aligned
from keras_msd.evaluate.vectors import SentenceEncoder
from keras_msd.export.card_text import score_title
from keras_msd.export.formats import quantizations
from keras_msd.export.parity import ExportError, parity
from keras_msd.export.proof_sentences import (
    MADE_SET,
    Row,
    graded_rows,
    proof_sentences,
)

Rows = Sequence[Row] | Mapping[str, Sequence[Row]]
SCORES = ("spearman", "cross_lingual", "monolingual")


class Thresholds(NamedTuple):
    """How much worse than its encoder an artefact may be.

    Attributes:
        min_cosine: Smallest cosine between both vectors of any sentence.
        min_neighbours: Smallest share of sentences whose nearest other one stays.
        max_sts_loss: Points of Spearman x 100 that may be lost.
    """

    min_cosine: float
    min_neighbours: float
    max_sts_loss: float

    @property
    def max_length_change(self) -> float | None:
        """Largest share of its length by which a vector may be longer or shorter.

        An error of a share e across a vector takes its cosine to 1 / sqrt(1 + e**2);
        the same e is allowed along it. None, for any, where a cosine may be 0.
        """
        if self.min_cosine <= 0:
            return None
        return round(math.sqrt(self.min_cosine**-2 - 1), 6)


THRESHOLDS: dict[str | None, Thresholds] = {
    None: Thresholds(0.99999, 0.99, 0.1),
    "fp16": Thresholds(0.9999, 0.97, 0.1),
    "int8": Thresholds(0.99, 0.9, 0.3),
    "int4_table": Thresholds(0.9, 0.8, 0.5),
    "int4": Thresholds(0.85, 0.75, 1.0),
}


class Proof:
    """What an artefact must show.

    Args:
        sentences: Compared one by one; some 200 in many languages by default.
        sts: `(gold, sentence 1, sentence 2)`, or such rows by language code, aligned
            and with English, as `evaluate.sts_aligned` takes them; made ones by
            default.
        sts_name: What the card calls `sts`.
        min_cosine: Smallest cosine that a sentence may have; by default
            `THRESHOLDS[quantize]`, as the next two.
        min_neighbours: Smallest share of the sentences whose nearest other one stays.
        max_sts_loss: Points of Spearman x 100 that `sts` may lose.

    Raises:
        InputError: There is no sentence, or a threshold is out of range.
    """

    def __init__(
        self,
        sentences: Sequence[str] | None = None,
        sts: Rows | None = None,
        sts_name: str | None = None,
        min_cosine: float | None = None,
        min_neighbours: float | None = None,
        max_sts_loss: float | None = None,
    ) -> None:
        if sentences is not None and not (sentences := checks.sentences(sentences)):
            raise checks.InputError(
                "`sentences` must hold at least one text. Received: none."
            )
        if min_cosine is not None and not -1 <= min_cosine <= 1:
            raise checks.InputError(
                f"`min_cosine` must be from -1 to 1. Received: {min_cosine}."
            )
        if min_neighbours is not None and not 0 <= min_neighbours <= 1:
            raise checks.InputError(
                f"`min_neighbours` must be from 0 to 1. Received: {min_neighbours}."
            )
        if max_sts_loss is not None and not max_sts_loss >= 0:
            raise checks.InputError(
                f"`max_sts_loss` must be at least 0. Received: {max_sts_loss}."
            )
        self._sentences, self._sts = sentences, sts
        self._set = MADE_SET if sts is None else sts_name or "given rows"
        given = (min_cosine, min_neighbours, max_sts_loss)
        named = zip(Thresholds._fields, given, strict=True)
        self._given = {name: value for name, value in named if value is not None}

    def __call__(
        self,
        encoder: SentenceEncoder,
        artefact: SentenceEncoder,
        format: str,
        quantize: str | None,
    ) -> dict[str, Any]:
        """Compare both; each distinct sentence is encoded once by each.

        Returns:
            What `parity` returns, `sts` (`set`, `pairs`, and `before` and `after` with
            the scores by name), and `thresholds`.

        Raises:
            ExportError: A threshold is missed, or vectors are not finite or of another
                shape.
            InputError: `sts` is no set of graded rows.
        """
        limits = THRESHOLDS[quantize]._replace(**self._given)
        texts = list(dict.fromkeys(self._sentences or proof_sentences()))
        before = _Remembered(encoder, texts)
        after = _Remembered(artefact, texts)
        found = parity(texts, before.encode(texts), after.encode(texts))
        if found["min_cosine"] < limits.min_cosine:
            raise ExportError(
                f"The artefact ({_name(format, quantize)}) must agree with the encoder "
                f"to cosine {limits.min_cosine}. Received: {found['min_cosine']:.6f} "
                f"for {found['worst']!r:.60}. Nothing was kept. "
                f"{_advice(format, quantize)}, or lower `min_cosine`."
            )
        longest = limits.max_length_change
        if longest is not None and found["length_change"] > longest:
            raise ExportError(
                f"The vectors of the artefact ({_name(format, quantize)}) must be as "
                f"long as the encoder's to {100 * longest:.2f} %. "
                f"Received: {100 * found['length_change']:.2f} %. Nothing was kept. "
                f"{_advice(format, quantize)}, or lower `min_cosine`."
            )
        if found["neighbours_kept"] < limits.min_neighbours:
            raise ExportError(
                f"The artefact ({_name(format, quantize)}) must keep the nearest "
                f"neighbour of {100 * limits.min_neighbours:g} % of the sentences. "
                f"Received: {100 * found['neighbours_kept']:.1f} %. Nothing was kept. "
                f"{_advice(format, quantize)}, or lower `min_neighbours`."
            )
        rows = graded_rows() if self._sts is None else self._sts
        own, kept = _scores(before, rows), _scores(after, rows)
        for name, score in own.items():
            if name in SCORES and score - kept[name] > limits.max_sts_loss:
                raise ExportError(
                    f"The artefact ({_name(format, quantize)}) may lose "
                    f"{limits.max_sts_loss} points of {score_title(name)} on "
                    f"{self._set}. Received: {score:.2f} before, {kept[name]:.2f} "
                    f"after. Nothing was kept. {_advice(format, quantize)}, or raise "
                    "`max_sts_loss`."
                )
        scores = {
            when: {name: all_[name] for name in SCORES if name in all_}
            for when, all_ in (("before", own), ("after", kept))
        }
        return found | {
            "sts": {"set": self._set, "pairs": own["pairs"]} | scores,
            "thresholds": limits._asdict() | {"max_length_change": longest},
        }


class _Remembered:
    """An encoder that computes the vector of a sentence once."""

    def __init__(self, encoder: SentenceEncoder, texts: Sequence[str]) -> None:
        self._encoder = encoder
        self._vectors = dict(zip(texts, encoder.encode(list(texts)), strict=True))

    def encode(self, texts: list[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors |= zip(new, self._encoder.encode(new), strict=True)
        return np.stack([self._vectors[text] for text in texts])


def _scores(encoder: SentenceEncoder, rows: Rows) -> dict[str, Any]:
    if isinstance(rows, Mapping):
        return sts_aligned(encoder, rows)
    return score_rows(encoder, rows)


def _name(format: str, quantize: str | None) -> str:
    return format if quantize is None else f"{format}, {quantize}"


def _advice(format: str, quantize: str | None) -> str:
    """Return which of the format's quantisations to try next."""
    offered = quantizations(format)
    if quantize is None or quantize not in offered:
        return "Float32 weights should agree: compare the versions of the libraries"
    milder = offered[offered.index(quantize) - 1]
    return f"Try quantize={milder!r}, which stores more bits"
