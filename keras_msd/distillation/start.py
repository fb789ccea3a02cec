"""Where `distil` starts: which encoder, with which tokens, and how it is made."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd import checks
from keras_msd.checkpoints.packaged import (
    backbone_files,
    backbone_is_installed,
    is_installed,
    is_packaged,
    known_languages,
    packaged_folder,
)
from keras_msd.checks import InputError
from keras_msd.choices import MAX_LENGTH
from keras_msd.distillation.plan import Description, Shape, shape_of, table_tokens
from keras_msd.io.files import read_json
from keras_msd.load import check_source, open_encoder
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import WORD
from keras_msd.models.trim import (
    cut_positions,
    keep_tokens,
    needed_tokens,
    restore_vocabulary,
)
from keras_msd.starts.closed_form import (
    BothSides,
    closed_form_encoder,
    extend_vocabulary,
    fit_ridge,
    token_frequencies,
)
from keras_msd.starts.width import PRUNING_TEXTS, prune_width
from keras_msd.teachers.teacher import default_is_installed
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import extend_unigram, parse, train_unigram

PAIRS, TABLE, SMALL, BACKBONE = "pairs", "tiny12", "small12", "e5-small"
LAYERS_MB = 8.0  # below this, no transformer layers fit beside a vocabulary
DEFAULT_MB = 16.0
RIDGE = 0.3  # penalty of the ridge baseline
ROUNDS = 8  # of Newton's method
PENALTY = 1.0
EXAMPLES = 20_000  # tokens that do not occur

# The languages of XLM-R, whose tokenizer and initial weights e5-small has.
BACKBONE_LANGUAGES = (
    "af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd "
    "gl gu ha he hi hr hu hy id is it ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml "
    "mn mr ms my ne nl no om or pa pl ps pt ro ru sa sd si sk sl so sq sr su sv sw ta "
    "te th tl tr ug uk ur uz vi xh yi zh"
).split()


class Start(NamedTuple):
    """Where training starts.

    Attributes:
        source: What `load_encoder` opens; "pairs" for the ridge baseline.
        vocabulary: An encoder whose tokens it also gets, or None.
        teacher: What `load_teacher` opens; None for the start as it is before it is cut
            to size.
        table: Whether it is a token embedding table, without transformer layers.
        reason: Why it was chosen, for people.
    """

    source: Any
    vocabulary: str | None
    teacher: Any
    table: bool
    reason: str


def backbones() -> list[str]:
    """Return the names of the installed encoders that have transformer layers."""
    found = [SMALL] if is_installed(SMALL) else []
    return [*found, BACKBONE] if backbone_is_installed(BACKBONE) else found


def default_start(
    languages: Collection[str], max_mb: float | None, teacher: Any = None
) -> Start:
    """Return the start for some languages and a size.

    Args:
        languages: Codes of all languages of the texts.
        max_mb: Maximum size of the file in megabytes.
        teacher: The teacher that was asked for, or None.

    Raises:
        InputError: Neither a backbone for the languages nor the default teacher is
            installed.
    """
    there = backbones()
    known = set(known_languages(SMALL))
    other = sorted(set(languages) - known)
    why_table, small = None, max_mb is not None and max_mb < LAYERS_MB
    if teacher is not None and teacher not in there:
        why_table = "the teacher is not a backbone"
    elif not there:
        why_table = "no backbone is installed"
    elif small:
        why_table = f"transformer layers need {LAYERS_MB:g} MB"
    elif BACKBONE not in there and other:
        why_table = f"{SMALL} does not know {', '.join(other)}, and {BACKBONE}, which "
        why_table += "may, is not installed"
    if why_table:
        if teacher is None and not small and not default_is_installed():
            backbone_files(BACKBONE)  # raises an error that says how to install it
        default = teacher in (None, "default")
        start = TABLE if default and is_installed(TABLE) and not max_mb else PAIRS
        return Start(start, None, teacher or "default", True, why_table)
    if BACKBONE not in there or (SMALL in there and not other):
        return Start(SMALL, None, teacher, False, f"{SMALL} knows these languages")
    if SMALL not in there:
        return Start(BACKBONE, None, teacher, False, f"{BACKBONE} is installed")
    reason = f"layers of {SMALL}, tokens of {BACKBONE} for {', '.join(other)}"
    if unknown := sorted(set(other) - set(BACKBONE_LANGUAGES)):
        reason += f"; neither was trained on {', '.join(unknown)}"
    return Start(SMALL, BACKBONE, teacher, False, reason)


def named_start(source: Any, teacher: Any = None) -> Start:
    """Return the start that was asked for.

    Args:
        source: "pairs", or what `load_encoder` opens.
        teacher: The teacher that was asked for, or None.

    Raises:
        InputError: The source does not exist.
    """
    asked = "as you asked"
    if source == PAIRS:
        return Start(PAIRS, None, teacher or "default", True, asked)
    check_source(source, "start")
    if _is_table(source):
        return Start(source, None, teacher or "default", True, asked)
    return Start(source, None, teacher, False, asked)


def _is_table(source: Any) -> bool:
    """Tell whether an encoder has no transformer layers, before it is loaded."""
    folder = packaged_folder(str(source)) if is_packaged(source) else Path(source)
    config = folder / "encoder.json"
    return config.is_file() and read_json(config)["config"]["num_layers"] == 0


def whole_start(begin: Start, max_length: int) -> Encoder:
    """Load a start with layers, not cut to size yet but for the longest text.

    Raises:
        InputError: It is no encoder with layers that can be trained.
    """
    whole = open_encoder(begin.source)
    if not isinstance(whole, Encoder) or whole.config.num_layers == 0:
        raise InputError(
            "A start with layers must be an encoder that can be trained. Received: "
            f"`{begin.source}`. Give the folder of a checkpoint or of an "
            f'encoder, or one of "{SMALL}", "{BACKBONE}", "{TABLE}", "{PAIRS}".'
        )
    if begin.vocabulary:
        whole = restore_vocabulary(whole, open_encoder(begin.vocabulary))
    return cut_positions(whole, max_length)


def fitting_shape(
    whole: Encoder, lines: Sequence[str], max_bytes: float, most: int | None
) -> Shape:
    """Return the vocabulary and the layers of a start that fit, see `shape_of`.

    Args:
        whole: The start before it is cut to size.
        lines: Texts that decide the vocabulary.
        max_bytes: Maximum size of the file.
        most: Maximum number of tokens.
    """
    tokenizer = whole.tokenizer
    counts = token_frequencies(tokenizer.encode_plain(lines), tokenizer.vocabulary_size)
    needed = needed_tokens(tokenizer, counts)
    checks.at_least(len(needed), vocabulary_size=most)
    rows = whole.weights()[WORD][: len(counts)]
    expected = expected_counts(tokenizer, rows, counts)
    described = Description.of(tokenizer)
    return shape_of(whole.config, described, expected, needed, max_bytes, most)


def cut_to_shape(
    whole: Encoder, shape: Shape, lines: Sequence[str], seed: int
) -> Encoder:
    """Return a start with the tokens of a shape, and the heads and neurons.

    `PRUNING_TEXTS` of `lines`, drawn by `seed`, decide which heads and neurons stay.
    """
    encoder = keep_tokens(whole, shape.kept)
    if not shape.pruned:
        return encoder
    count, draw = min(PRUNING_TEXTS, len(lines)), np.random.default_rng(seed)
    chosen = sorted(draw.choice(len(lines), count, replace=False))
    kept = {name: it for name, it in shape.pruned.items() if name != "head_dim"}
    return prune_width(encoder, [lines[row] for row in chosen], **kept)


def ridge_baseline(
    pairs: Sequence[Any], store: Any, size: int, max_mb: float | None
) -> Encoder:
    """Fit a token embedding table to the teacher's vectors of pairs.

    Args:
        pairs: `Pair`s.
        store: The teacher's vectors.
        size: Maximum vocabulary.
        max_mb: Maximum size of the file in megabytes.
    """
    sources = [pair.source for pair in pairs]
    texts = [*sources, *(pair.target for pair in pairs)]
    size = min(size, table_tokens(store.dim, max_mb) or size)
    tokenizer = train_unigram(texts, size, at_most=True, case_fold=True)
    vectors = store.targets(sources)
    goals = BothSides(lambda start, stop: vectors[start:stop], *vectors.shape)
    tokens = tokenizer.encode_plain(texts)
    table = fit_ridge(tokens, goals, tokenizer.vocabulary_size, RIDGE)
    return closed_form_encoder(tokenizer, table, max_length=MAX_LENGTH)


def extended_table(source: Any, baseline: Encoder) -> Encoder:
    """Return an encoder that exists with the further tokens of the ridge baseline.

    Raises:
        InputError: It is no encoder, or has another dimension than the baseline.
    """
    known = open_encoder(source)
    if not isinstance(known, Encoder) or known.dim != baseline.dim:
        raise InputError(
            "`start` must be an encoder with the teacher's dimension, "
            f"{baseline.dim}. Received: {type(known).__name__} "
            f"`{source}` with dimension {known.dim}. Choose another "
            "encoder or another teacher."
        )
    extended = extend_unigram(known.tokenizer, baseline.tokenizer)
    return extend_vocabulary(known, extended)


def expected_counts(
    tokenizer: Tokenizer, rows: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Return how often each token would occur in twice as much text.

    A few thousand sentences lack most words of their languages. The vocabulary of a
    unigram tokenizer has the probability of each token over all languages, and tokens
    of one language have embeddings of one kind. So logistic regression on the rows of
    the embedding table learns which tokens are like those that occur: positive are
    tokens that occur, negative are others, weighted by how often they would occur if
    the texts were of all languages. The expected count of a token is its own count plus
    the count that its probability gives, times the probability that it is like yours.

    Args:
        tokenizer: Tokenizer of the table. Other kinds than unigram give `counts`.
        rows: The embedding table, `(vocabulary_size, dim)`.
        counts: How often each token occurs, int `(vocabulary_size,)`.

    Returns:
        float64 `(vocabulary_size,)`.

    Source: ours.
    """
    if tokenizer.kind != "unigram":
        return counts.astype(np.float64)
    scores = np.full(len(counts), -np.inf)
    pieces = parse(tokenizer.definition).pieces
    for number, piece in enumerate(pieces, 1):  # ours are one more
        if piece.type == piece.NORMAL and number < len(scores):
            scores[number] = piece.score
    usual = np.exp(scores)
    usual *= counts.sum() / usual.sum()
    seen = counts > 0
    weights = np.where(seen, 1.0, np.minimum(usual, 1.0))
    return counts + usual * _probabilities(rows, seen, weights)


def _probabilities(
    rows: np.ndarray, seen: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Fit weighted logistic regression and return its probabilities, `(n,)`.

    `EXAMPLES` negatives, drawn by their weights, stand for all.
    """
    inputs = rows.astype(np.float32)
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std()
    inputs = np.c_[inputs, np.ones(len(inputs), np.float32)]
    others = np.where(seen, 0.0, weights)
    total = others.sum()
    drawn = np.random.default_rng(0).choice(len(others), EXAMPLES, p=others / total)
    some = np.concatenate([np.flatnonzero(seen), drawn])
    known, goal = inputs[some].astype(np.float64), seen[some]
    weight = np.where(goal, 1.0, total / EXAMPLES)
    penalty = np.full(inputs.shape[1], PENALTY)
    penalty[-1] = 1e-9  # the bias
    solution = np.zeros(inputs.shape[1])
    for _ in range(ROUNDS):
        found = _sigmoid(known @ solution)
        gradient = known.T @ (weight * (found - goal)) + penalty * solution
        slope = weight * found * (1 - found)
        curvature = (known * slope[:, None]).T @ known
        solution -= np.linalg.solve(curvature + np.diag(penalty), gradient)
    return _sigmoid(inputs @ solution)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-np.clip(logits, -30, 30)))
    return result
