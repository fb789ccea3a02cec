"""How many bytes a file takes, what fits into a number of bytes, and the plan of it."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from keras_msd.checks import InputError
from keras_msd.choices import MAX_LENGTH
from keras_msd.export.formats import loaders_folder
from keras_msd.export.litert_files import with_tokenizer
from keras_msd.export.portable import READER, describe
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import (
    KERNELS,
    POSITION,
    WORD,
    EncoderConfig,
    weight_shapes,
)
from keras_msd.quantize import INT4_GROUP, int4_shapes, kernel_bits
from keras_msd.tokenizers.base import Tokenizer

SCHEME = "int4"
GRAPH_BYTES, LAYER_BYTES = 10_200, 7_900  # of the graph, measured: all, and each layer
SCALE_BYTES, FLOAT_BYTES = 2, 4  # of a block of 4 bits; of what is not rounded

# Of the compressed description of a unigram tokenizer that `distil` trains: without
# tokens, and of an average token. Measured on English with German and with Japanese.
NORMALIZER_BYTES, TOKEN_BYTES = 170_000, 8
MORE = 1.05  # a part of a vocabulary compresses less well than all of it, up to this
LEAST_TOKENS = 100  # of a table
LEAST = 0.9  # share of the expected tokens: below this, no encoder is made

# Points of P@1 on Tatoeba lost before training, estimated from the files in
# benchmarks/results/distil_small12_pairs.json: for each percent of the expected tokens
# that are cut, and by the share of a layer's neurons that stays.
TOKEN_LOSS = 1.2
WIDTH_LOSS = {1.0: 0.0, 0.75: 0.3, 0.5: 1.8, 0.375: 4.0}


@dataclass(frozen=True)
class Plan:
    """What is made.

    Attributes:
        start: Where training starts.
        teacher: Name of the teacher.
        reason: Why that start.
        languages: Codes of the languages.
        words: Those of them whose word frequencies help to choose the vocabulary.
        tokens: Size of the vocabulary.
        num_layers: Transformer layers.
        num_heads: Attention heads of a layer.
        intermediate_dim: Neurons of a feed-forward layer.
        pruned: Whether heads or neurons of the start are gone.
        coverage: Share of the tokens of such texts that the vocabulary is expected to
            have.
        loss: Expected loss before training, in points of P@1 on short sentences.
        expected_bytes: Expected size of the file.
        max_mb: What was asked for, in megabytes.
        steps: Training steps.
        minutes: Expected minutes of training.
    """

    start: str
    teacher: str
    reason: str
    languages: list[str]
    words: list[str]
    tokens: int
    num_layers: int
    num_heads: int
    intermediate_dim: int
    pruned: bool
    coverage: float | None
    loss: float | None
    expected_bytes: int
    max_mb: float | None
    steps: int
    minutes: float

    def values(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed plan."""
        yield f"Languages: {', '.join(self.languages)}"
        yield f"Start: {self.start} ({self.reason}); teacher: {self.teacher}"
        by = ", chosen with word frequencies" if self.words else ""
        if by and self.words != self.languages:
            by += f" of {', '.join(self.words)}"
        yield f"Vocabulary: {self.tokens:,} tokens{by}"
        if self.coverage is not None:
            cut = f"{100 * (1 - self.coverage):.1f} % of the tokens of such texts"
            yield (
                f"Expected loss: {self.loss:.1f} points of P@1 on short sentences, "
                f"before training. Cut: {cut}{', heads and neurons' * self.pruned}"
            )
        if self.num_layers:
            yield (
                f"Layers: {self.num_layers}, each with {self.num_heads} heads and "
                f"{self.intermediate_dim:,} neurons"
            )
        limit = "" if self.max_mb is None else f" of at most {self.max_mb:g} MB"
        yield f"File: about {self.expected_bytes / 1e6:.1f} MB{limit}, 4 bits a weight"
        if self.steps:
            yield f"Training: {self.steps:,} steps, about {self.minutes:.0f} minutes"
        else:
            yield "Training: none"


def file_bytes(config: EncoderConfig, description: int) -> int:
    """Return the bytes of a `litert` artefact in 4 bits.

    Args:
        config: The encoder.
        description: Bytes of the compressed description of its tokenizer.
    """
    total = GRAPH_BYTES + LAYER_BYTES * config.num_layers * config.repeats
    total += description
    total += (loaders_folder() / READER).stat().st_size
    for path, shape in weight_shapes(config).items():
        count, inputs = int(np.prod(shape)), shape[0]
        if path.endswith("attention_output/kernel"):
            inputs *= shape[1]
        if path == WORD:
            values, scales = map(np.prod, int4_shapes(*shape))
            total += int(values + SCALE_BYTES * scales)
        elif path.endswith(KERNELS):
            total += count * kernel_bits(SCHEME, inputs) // 8
            total += SCALE_BYTES * count // min(inputs, INT4_GROUP)
        elif path == POSITION:
            total += count + FLOAT_BYTES * shape[0]  # 8 bits, and a scale a row
        else:
            total += FLOAT_BYTES * count
    return total


def encoder_bytes(encoder: Encoder) -> int:
    """Return the bytes of an encoder's `litert` artefact in 4 bits."""
    description = describe(encoder.tokenizer, encoder.max_length)
    return file_bytes(encoder.config, _compressed(description))


def _compressed(description: bytes) -> int:
    return len(with_tokenizer(b"", description))


class Description(NamedTuple):
    """Bytes of the compressed description of a tokenizer.

    Attributes:
        rest: All but the tokens.
        tokens: Of each token, float `(vocabulary_size,)`.
    """

    rest: int
    tokens: np.ndarray

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Description":
        """Measure a tokenizer.

        Raises:
            InputError: It cannot travel with an artefact.
        """
        whole = describe(tokenizer, MAX_LENGTH)
        fields = json.loads(whole)
        each = np.zeros(tokenizer.vocabulary_size)
        for name in ("pieces", "scores"):
            for row, value in enumerate(fields.pop(name, ())):
                written = json.dumps(value, ensure_ascii=False)
                each[row] += len(written.encode()) + 1
        rest = _compressed(json.dumps(fields).encode())
        return cls(rest, each * MORE * (_compressed(whole) - rest) / each.sum())


def table_tokens(dim: int, max_mb: float | None) -> int | None:
    """Return how many tokens a table of `dim` numbers each may have; None for any.

    Raises:
        InputError: They are too few.
    """
    if max_mb is None:
        return None

    def needed(tokens: int) -> int:
        config = EncoderConfig(
            vocabulary_size=tokens,
            hidden_dim=dim,
            num_layers=0,
            num_heads=1,
            intermediate_dim=1,
            max_length=MAX_LENGTH,
            pad_id=0,
        )
        return file_bytes(config, NORMALIZER_BYTES + TOKEN_BYTES * tokens)

    first, thousand = needed(LEAST_TOKENS), needed(LEAST_TOKENS + 1000)
    tokens = LEAST_TOKENS + int((1e6 * max_mb - first) / ((thousand - first) / 1000))
    if tokens < LEAST_TOKENS:
        raise InputError(
            f"`max_mb` is too small for a table with {dim} numbers a token. Received: "
            f"{max_mb:g}. Give at least {np.ceil(first / 1e4) / 100:g}."
        )
    return tokens


class Shape(NamedTuple):
    """The vocabulary and the layers that fit into a file.

    Attributes:
        kept: The tokens that stay, in ascending order.
        coverage: Share of the expected tokens that they are.
        pruned: `num_heads` and `intermediate_dim`, if heads and neurons must go.
        loss: Expected loss before training, in points of P@1 on short sentences.
    """

    kept: list[int]
    coverage: float
    pruned: dict[str, int]
    loss: float


def shape_of(
    config: EncoderConfig,
    description: Description,
    expected: np.ndarray,
    needed: Collection[int],
    max_bytes: float,
    most: int | None = None,
) -> Shape:
    """Return the vocabulary and the layers that fit, with the least expected loss.

    The fewer neurons and heads a layer keeps, the more tokens fit beside it.

    Args:
        config: The encoder at the start.
        description: Of its tokenizer.
        expected: How often each token is expected: `(vocabulary_size,)`.
        needed: Tokens that a vocabulary needs in any case.
        max_bytes: Maximum size of the file.
        most: Maximum number of tokens.

    Raises:
        InputError: No encoder fits; the message has the smallest size that works.
    """
    ranked = expected.astype(np.float64)
    ranked[sorted(needed)] = np.inf
    order = np.argsort(-ranked, kind="stable")[: int((ranked > 0).sum())]
    share = np.cumsum(expected[order]) / expected.sum()
    described = description.rest + np.cumsum(description.tokens[order])
    limit = min(most or len(order), len(order))

    fewest = min(max(len(needed), int(np.searchsorted(share, LEAST)) + 1), limit)
    found: Shape | None = None
    for pruned, width_loss in _widths(config):
        own = config.model_copy(update=pruned)
        one, two = (
            file_bytes(own.model_copy(update={"vocabulary_size": rows}), 0)
            for rows in (1, 2)
        )
        sizes = one + (two - one) * np.arange(len(order)) + described
        tokens = min(int(np.searchsorted(sizes, max_bytes, side="right")), limit)
        if tokens < fewest:
            continue
        coverage = float(share[tokens - 1])
        loss = 100 * TOKEN_LOSS * (1 - coverage) + width_loss
        if found is None or loss < found.loss:
            found = Shape(sorted(order[:tokens].tolist()), coverage, pruned, loss)
    if found is None:
        smallest = sizes[fewest - 1]
        raise InputError(
            "`max_mb` is too small for these languages and this start. Received: "
            f"{max_bytes / 1e6:g}. Give at least {np.ceil(smallest / 1e5) / 10:g}, "
            'fewer languages, or `start="pairs"` (`--start pairs`), which has no '
            "layers."
        )
    return found


def _widths(config: EncoderConfig) -> Sequence[tuple[dict[str, Any], float]]:
    """Return layers and their loss, widest first; {} keeps them whole."""
    if config.repeats > 1 or not config.num_layers:
        return [({}, 0.0)]
    head_dim = config.head_dim or config.hidden_dim // config.num_heads
    return [
        (
            {}
            if share == 1
            else {
                "num_heads": int(np.ceil(config.num_heads * (1 + share) / 2)),
                "head_dim": head_dim,
                "intermediate_dim": max(
                    32, int(config.intermediate_dim * share) // 32 * 32
                ),
            },
            loss,
        )
        for share, loss in WIDTH_LOSS.items()
    ]
