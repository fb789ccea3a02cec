"""Parity check at the end of an export: the artefact against its encoder."""

import functools
import math
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd import checks
from keras_msd.arrays import in_chunks, similarity_pairs, unit_rows
from keras_msd.data.corpora import LANGUAGES, example_pairs, example_similarity
from keras_msd.data.pair import GradedPair
from keras_msd.evaluate.measures import SentenceEncoder
from keras_msd.evaluate.similarity import across_tracks, sts_aligned
from keras_msd.evaluate.similarity import sts as score_rows
from keras_msd.export.card import score_title
from keras_msd.export.formats import Format
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import parse

Rows = Sequence[GradedPair] | Mapping[str, Sequence[GradedPair]]
SCORES = ("spearman", "cross_lingual", "monolingual")
TIE = 1e-6  # neighbours whose cosines differ by less are equally near
LEAST_COSINE = 1e-3  # with a lower limit, vectors may be a thousand times as long
SHOWN = 200  # maximum characters of a sentence in a card

LINES = 20  # in each language
GRADED_LINES = 36
EXAMPLE_SET = (
    f"sentences of Tatoeba in {len(LANGUAGES) + 1} languages, graded by the default "
    "teacher, within and across languages"
)
UNNAMED_SET = "given rows"

# Scripts, accents, marks, digits, emoji, control tokens as text, an empty text, and a
# sentence that is too long for any encoder.
SENTENCES = (
    *(Path(__file__).with_name("sentences.txt").read_text("utf-8").splitlines()),
    "   many    blanks   \tand a tab ",
    "WHY ARE YOU SHOUTING? because i can",
    "ok",
    "?",
    "",
    "all the way down the long and winding road " * 40,
)
# More texts, on which tokenizers alone are compared.
TRICKY = (
    "</s> <s> <pad> <unk> <mask> [SEP] [CLS] [PAD] [MASK] [UNK]",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \u2764\ufe0f",
    "e\u0301 \u0301a n\u0303 \u1100\u1161\u11a8 \ufb01\u0301",
    "line\nbreak\r\ntab\tnext\x85line\u2028par\u00a0thin\u2009",
    "a" * 100 + " " + "a" * 101,
    "word" * 300,
)
TOGETHER = 16  # characters, or pieces, in such a text
LEFT_OUT = ("Cn", "Co", "Cs")  # not assigned, private, surrogates
LONGEST, BATCH = 4096, 512  # tokens of a text, and texts at a time, of `check_ids`
# Two sums of the same scores in another order differ by less, relatively.
SAME = 1e-5


class ExportError(checks.InputError):
    """Raised if an artefact differs from its encoder or is too large.

    Example:
        >>> issubclass(msd.export.ExportError, msd.InputError)
        True
    """


class Thresholds(NamedTuple):
    """Limits on the difference between an artefact and its encoder.

    Attributes:
        min_cosine: Minimum cosine between the two vectors of a sentence.
        min_neighbours: Minimum share of sentences whose nearest other sentence stays
            the same.
        max_sts_loss: Maximum loss, in points of Spearman x 100.
    """

    min_cosine: float
    min_neighbours: float
    max_sts_loss: float

    @property
    def max_length_change(self) -> float:
        """Maximum relative change of a vector's length.

        An error of relative size e at right angles to a vector reduces the cosine to 1
        / sqrt(1 + e**2). The same e is allowed in the direction of the vector.
        """
        cosine = min(max(self.min_cosine, LEAST_COSINE), 1)
        return round(math.sqrt(cosine**-2 - 1), 6)


THRESHOLDS: dict[str | None, Thresholds] = {
    None: Thresholds(0.99999, 0.99, 0.1),
    "fp16": Thresholds(0.9999, 0.97, 0.1),
    "f16": Thresholds(0.9999, 0.97, 0.1),
    "int8": Thresholds(0.99, 0.9, 0.3),
    "q8_0": Thresholds(0.99, 0.9, 0.3),
    "int4_table": Thresholds(0.9, 0.8, 0.5),
    "int4": Thresholds(0.85, 0.75, 1.0),
    "q4_0": Thresholds(0.85, 0.75, 1.0),
}


def limits_of(quantize: str | None, **given: float | None) -> Thresholds:
    """Return the limits of a quantization, or those that are given instead.

    Raises:
        InputError: A limit is too low.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    limits = THRESHOLDS[quantize]._replace(**chosen)
    checks.at_least(-1, min_cosine=limits.min_cosine)
    least, most = limits.min_neighbours, limits.max_sts_loss
    checks.at_least(0, min_neighbours=least, max_sts_loss=most)
    return limits


def prove(
    encoder: SentenceEncoder,
    artefact: SentenceEncoder,
    record: Format,
    quantize: str | None,
    limits: Thresholds,
    sentences: Sequence[str] | None = None,
    sts: Rows | None = None,
    sts_name: str | None = None,
) -> dict[str, Any]:
    """Compare an artefact with its encoder.

    Args:
        encoder: The encoder.
        artefact: What was made of it.
        record: The artefact's format.
        quantize: Its quantization.
        limits: What may differ.
        sentences: Sentences whose vectors are compared; default about 200 in many
            languages.
        sts: Graded rows `(gold, sentence 1, sentence 2)`, or row-aligned rows by
            language code, including English, see `evaluate.sts_aligned`; default
            example sentences.
        sts_name: Name of `sts` in the card.

    Returns:
        What `parity` returns, `sts` (`set`, `pairs`, and `before` and `after` with the
        scores by name), and `thresholds`.

    Raises:
        ExportError: A limit is missed, or vectors are not finite or of another shape.
        InputError: There is no sentence, or `sts` is no set of graded rows.
    """
    texts = list(dict.fromkeys(proof_sentences() if sentences is None else sentences))
    if choose := record.compared:
        texts = choose(encoder, texts)
    if not texts:
        raise checks.InputError(
            "`sentences` must hold at least one text that the format runs as the "
            "encoder does. Received: none, or empty and long ones alone."
        )
    found = parity(texts, encoder.encode(texts), artefact.encode(texts))
    rows = graded_rows() if sts is None else sts
    score: Any = sts_aligned if isinstance(rows, Mapping) else score_rows
    old, new = score(encoder, rows), score(artefact, rows)
    scores = [key for key in SCORES if key in old]
    rows_name = EXAMPLE_SET if sts is None else sts_name or UNNAMED_SET

    name = f"({record.name})" if quantize is None else f"({record.name}, {quantize})"
    longest = limits.max_length_change

    def check(kept: bool, rule: str, received: str, repair: str) -> None:
        if not kept:
            raise ExportError(
                f"The artefact {name} must {rule}. Received: {received}. Nothing was "
                f"kept. {_advice(record, quantize)}, or {repair}."
            )

    check(
        found["min_cosine"] >= limits.min_cosine,
        f"agree with the encoder to cosine {limits.min_cosine}",
        f"{found['min_cosine']:.6f} for {found['worst']!r:.60}",
        "lower `min_cosine`",
    )
    check(
        found["length_change"] <= longest,
        f"give vectors as long as the encoder's to {100 * longest:.2f} %",
        f"{100 * found['length_change']:.2f} %",
        "lower `min_cosine`",
    )
    least = f"{100 * limits.min_neighbours:g} %"
    check(
        found["neighbours_kept"] >= limits.min_neighbours,
        f"keep the nearest neighbour of {least} of the sentences",
        f"{100 * found['neighbours_kept']:.1f} %",
        "lower `min_neighbours`",
    )
    for key in scores:
        points = f"{limits.max_sts_loss} points of {score_title(key)}"
        check(
            not old[key] - new[key] > limits.max_sts_loss,
            f"lose at most {points} on {rows_name}",
            f"{old[key]:.2f} before, {new[key]:.2f} after",
            "raise `max_sts_loss`",
        )
    return found | {
        "sts": {
            "set": rows_name,
            "pairs": old["pairs"],
            "before": {key: old[key] for key in scores},
            "after": {key: new[key] for key in scores},
        },
        "thresholds": limits._asdict() | {"max_length_change": longest},
    }


def _advice(record: Format, quantize: str | None) -> str:
    """Return which of the format's quantisations to try next."""
    offered = record.quantizations
    if quantize is None or quantize not in offered:
        return "Float32 weights should agree: compare the versions of the libraries"
    milder = offered[offered.index(quantize) - 1]
    return f"Try quantize={milder!r}, which stores more bits"


def proof_sentences() -> list[str]:
    """Return some 200 distinct sentences: `SENTENCES` and sentences of Tatoeba."""
    pairs = example_pairs(split="dev", count=LINES)
    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    return list(dict.fromkeys([*SENTENCES, *texts]))


def check_texts(tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the proof's sentences, tricky ones, every piece and every character."""
    yield from proof_sentences()
    yield from TRICKY
    # Between letters and after a blank: combining marks see only what is beside them.
    for parts, form in ((tokenizer.pieces(), "{}"), (_characters(), "x{}y")):
        for start in range(0, len(parts), TOGETHER):
            yield " ".join(map(form.format, parts[start : start + TOGETHER]))


def check_ids(
    tokenizer: Tokenizer, encode: Callable[[list[str]], list[list[int]]], what: str
) -> dict[str, int]:
    """Compare a runtime's unigram tokenizer with the encoder's on `check_texts`.

    Args:
        tokenizer: The encoder's.
        encode: From texts to the runtime's ids, start and end included.
        what: The file that holds the tokenizer, for the message.

    Returns:
        `{"texts", "equally_likely"}`: how many were compared, and how many of them
        were split in another, equally likely way.

    Raises:
        InputError: The ids of a text differ.
    """
    texts, ties = list(check_texts(tokenizer)), 0
    for part in in_chunks(texts, BATCH):
        expected = tokenizer.encode(part, LONGEST)
        for text, wanted, ids in zip(part, expected, encode(part), strict=True):
            if ids == wanted:
                continue
            if not _equally_likely(tokenizer, wanted, ids):
                raise checks.InputError(
                    f"A tokenizer in {what} must give the ids of the encoder's own. "
                    f"Received: other ids for {text!r:.80}. Use the format `onnx`, "
                    "which takes token ids."
                )
            ties += 1
    return {"texts": len(texts), "equally_likely": ties}


def _equally_likely(tokenizer: Any, expected: list[int], ids: list[int]) -> bool:
    if tokenizer.unknown_id in expected + ids:
        return sorted(expected) == sorted(ids)
    scores = [0.0, *(piece.score for piece in parse(tokenizer.definition).pieces)]
    sums = [sum(scores[number] for number in row[1:-1]) for row in (expected, ids)]
    return abs(sums[0] - sums[1]) <= SAME * abs(sums[0])


@functools.cache
def _characters() -> str:
    # NUL ends a text in some runtimes.
    every = map(chr, range(1, sys.maxunicode + 1))
    return "".join(c for c in every if unicodedata.category(c) not in LEFT_OUT)


@functools.cache
def graded_rows() -> tuple[GradedPair, ...]:
    """Return `(gold, sentence 1, sentence 2)` of example sentences, gold from 0 to 5.

    Both sentences are of one language, or the first is English.
    """
    rows = example_similarity(count=GRADED_LINES)
    tracks = rows | across_tracks(rows)
    return tuple(row for track in tracks.values() for row in track)


def row_cosines(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the cosine of each row of `(n, dim)` with the same row of another.

    Equal rows have cosine 1, also where both are all zeros; a row that is not finite
    has minus infinity.

    Raises:
        ExportError: The shapes differ.
    """
    if before.shape != after.shape:
        raise ExportError(
            f"The artefact must give vectors of shape {before.shape}. Received: "
            f"{after.shape}. Nothing was kept."
        )
    before, after = np.asarray(before, np.float64), np.asarray(after, np.float64)
    with np.errstate(invalid="ignore"):  # of rows that are not finite
        cosines = similarity_pairs("cosine", before, after)
    cosines[(before == after).all(axis=1)] = 1
    cosines[~np.isfinite([before, after]).all(axis=(0, 2))] = -np.inf
    return cosines


def neighbours_kept(before: np.ndarray, after: np.ndarray) -> float:
    """Return the share of rows whose nearest other row is the same in both.

    Args:
        before: Vectors of distinct sentences, `(n, dim)`, n at least 1.
        after: Other vectors of the same sentences.

    Returns:
        From 0 to 1. A neighbour whose cosine was the largest to within 1e-6 is as
        good. One row alone has no neighbour and keeps it.
    """
    if len(before) < 2:
        return 1.0
    similarities = _similarities(before)
    nearest = _similarities(after).argmax(axis=1)
    kept = similarities[np.arange(len(nearest)), nearest]
    return float((kept >= similarities.max(axis=1) - TIE).mean())


def parity(
    texts: Sequence[str], before: np.ndarray, after: np.ndarray
) -> dict[str, Any]:
    """Compare an artefact with its encoder, sentence by sentence.

    Args:
        texts: Distinct sentences, one or more.
        before: The encoder's vectors, `(n, dim)`.
        after: The artefact's.

    Returns:
        `{"sentences", "min_cosine", "mean_cosine", "worst", "largest_difference",
        "neighbours_kept", "length_change"}`: `worst` is the start of the sentence of
        the smallest cosine, `largest_difference` that of two components,
        `length_change` the largest share by which a vector is longer or shorter.

    Raises:
        ExportError: The shapes differ, or the artefact gives NaN or infinity.
    """
    cosines = row_cosines(before, after)
    worst = int(np.argmin(cosines))
    if not np.isfinite(cosines[worst]):
        raise ExportError(
            "The artefact must give finite vectors. Received: NaN or infinity for "
            f"{texts[worst]!r:.60}. Nothing was kept; store more bits."
        )
    old, new = (np.linalg.norm(side, axis=1) for side in (before, after))
    real = old > 0  # the cosine judges a vector of zeros
    change = np.abs(new[real] / old[real] - 1).max(initial=0)
    return {
        "sentences": len(texts),
        "min_cosine": round(float(cosines[worst]), 8),
        "mean_cosine": round(float(cosines.mean()), 8),
        "worst": texts[worst][:SHOWN],
        "largest_difference": round(float(np.abs(before - after).max()), 8),
        "neighbours_kept": round(neighbours_kept(before, after), 4),
        "length_change": round(float(change), 6),
    }


def _similarities(vectors: np.ndarray) -> np.ndarray:
    units = unit_rows(np.asarray(vectors, np.float64))
    similarities = units @ units.T
    np.fill_diagonal(similarities, -np.inf)
    return similarities
