"""Sentence pairs with a gold similarity or an inference label: files and batches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd.checks import InputError, at_least, nearest, one_of, utf8
from keras_msd.choices import CLASSES, SIDES, GoldScale
from keras_msd.data.batches import Batch, Batches, longest_of
from keras_msd.data.order import least_padding, mix, permutation
from keras_msd.data.pair import GradedPair, visible
from keras_msd.data.readers.lines import read_lines, tabbed, unpacked
from keras_msd.data.readers.tables import json_object
from keras_msd.data.tables import Ragged, TokenRows
from keras_msd.distribute import device_settings
from keras_msd.evaluate.similarity import read_sts
from keras_msd.io.files import digest
from keras_msd.io.remote import as_path

# Lowest and highest gold score, which become 0 and 1.
GOLD_SCALES: dict[GoldScale, tuple[float, float]] = {
    "over_5": (0.0, 5.0),
    "from_1": (1.0, 5.0),
}
# Names of the columns: in SNLI, MultiNLI and XNLI; in others; in translations of XNLI.
COLUMNS = {
    "premise": ("sentence1", "premise"),
    "hypothesis": ("sentence2", "hypothesis", "hypo"),
    "label": ("gold_label", "label", "entailment_judgment"),
}
UNDECIDED = ("-", "-1")  # the annotators did not agree
OTHER_NAMES = {"contradictory": "contradiction"}  # in the translations of XNLI
FORM = '{"premise": ..., "hypothesis": ..., "label": ...}'


def scale_gold(
    gold: Sequence[float] | np.ndarray, scale: GoldScale, origin: str = "gold scores"
) -> np.ndarray:
    """Return gold scores as similarities in [0, 1], float32 `(n,)`.

    "over_5" is `gold / 5`, for scores from 0 to 5 such as those of STSb. "from_1" is
    `(gold - 1) / 4`, for scores from 1 to 5 such as those of SICK, ASSIN and ASSIN 2.
    Scores from 1 to 5 are also valid for "over_5"; the lowest similarity is then 0.2.

    Args:
        gold: Scores `(n,)`.
        scale: "over_5" or "from_1".
        origin: Source of the scores, for the error message.

    Raises:
        InputError: The scale is unknown, or a score is outside its range.

    Example:
        >>> msd.data.scale_gold([0, 2.5, 5], "over_5")
        array([0. , 0.5, 1. ], dtype=float32)
    """
    one_of(GOLD_SCALES, scale=scale)
    lowest, highest = GOLD_SCALES[scale]
    scores = np.asarray(gold, np.float64)
    wrong = np.flatnonzero(~((scores >= lowest) & (scores <= highest)))
    if wrong.size:
        raise InputError(
            f'{origin}: the scale "{scale}" needs scores from {lowest:g} to '
            f"{highest:g}. Received: {scores[wrong[0]]:g} in row {wrong[0] + 1} "
            f"({len(wrong)} of {len(scores)} do not fit). Take another of "
            f"{', '.join(GOLD_SCALES)}, or bring the scores to that range."
        )
    return ((scores - lowest) / (highest - lowest)).astype(np.float32)


def scaled_rows(
    rows: Iterable[GradedPair], scale: GoldScale, origin: str = "gold scores"
) -> list[GradedPair]:
    """Return `(gold, sentence 1, sentence 2)` with scaled gold; see `scale_gold`.

    Example:
        >>> msd.data.scaled_rows([(3, "A dog.", "An animal.")], "from_1")
        [(0.5, 'A dog.', 'An animal.')]
    """
    rows = list(rows)
    gold = scale_gold([row[0] for row in rows], scale, origin)
    return [
        (float(score), first, second)
        for score, (_, first, second) in zip(gold, rows, strict=True)
    ]


def read_scored(path: str | Path, scale: GoldScale) -> list[GradedPair]:
    r"""Read an STS file, gold scaled.

    Args:
        path: A `.tsv.gz` file: score TAB sentence 1 TAB sentence 2.
        scale: "over_5" or "from_1", see `scale_gold`.

    Raises:
        InputError: The file is missing or damaged, or its scores do not fit the scale.

    Example:
        >>> import gzip
        >>> with gzip.open("pets.tsv.gz", "wt") as file:
        ...     _ = file.write("2.5\tA dog.\tAn animal.\n")
        >>> msd.data.read_scored("pets.tsv.gz", "over_5")
        [(0.5, 'A dog.', 'An animal.')]
    """
    return scaled_rows(read_sts(path), scale, str(path))


class RowBatches(Batches):
    """Batches of rows `(value, sentence 1, sentence 2)`, with any kind of values.

    A subclass defines the name and the type of the values in y, and checks them. For
    the arguments and the content of a batch, see `ScoredBatches`.

    Attributes:
        target: Name of the values in y.
        dtype: Type of the values in y.
    """

    target: str
    dtype: str

    def __init__(
        self,
        rows: Sequence[GradedPair],
        encoder: Any,
        batch_size: int = 16,
        max_length: int | None = None,
        epochs: int = 1,
        seed: int = 0,
        multiple: int = 1,
        buckets: int | None = None,
        steps: int | None = None,
    ) -> None:
        super().__init__()
        buckets = device_settings().buckets if buckets is None else buckets
        at_least(1, batch_size=batch_size, epochs=epochs, multiple=multiple)
        at_least(1, steps=steps, buckets=buckets)
        given = np.array([row[0] for row in rows], object)  # texts among numbers stay
        fits, rule, repair = self.rule(given)
        if not fits.all():
            row = int(np.flatnonzero(~fits)[0])
            raise InputError(
                f"{rule} Received: {rows[row][0]} in row {row + 1}. {repair}"
            )
        if len(rows) < batch_size:
            raise InputError(
                "`batch_size` must be at most the number of rows. Received: "
                f"batch_size={batch_size}, {len(rows)} rows. Choose a smaller one."
            )
        self.values = given.astype(self.dtype)
        tokenizer, longest = encoder.tokenizer, longest_of(encoder, max_length)
        sides = {}
        for column, side in enumerate(SIDES, 1):
            ids = tokenizer.encode([row[column] for row in rows], longest)
            sides[side] = Ragged.of(ids, np.int32)
        self.table = TokenRows(sides, tokenizer.pad_id, longest)
        self.batch_size, self.buckets = batch_size, None
        self.seed, self.multiple = seed, multiple
        whole = epochs * self.steps_per_epoch
        self.position, self.steps = 0, min(whole, steps or whole)
        if buckets is not None:
            # A batch of a later epoch may contain the longest texts of both sides.
            some = [np.arange(len(rows)), *map(self.rows, range(self.steps_per_epoch))]
            lengths = np.transpose([*map(self.table.longest, some)])
            self.buckets = least_padding(lengths, buckets, longest, self.multiple)
        order = repr((batch_size, longest, epochs, seed, self.multiple))
        order += f" buckets {self.buckets}" if buckets else ""
        self.identity = digest(tokenizer.fingerprint, order, repr(list(rows)))

    def rule(self, values: np.ndarray) -> tuple[np.ndarray, str, str]:
        """Return which values are valid, bool `(n,)`; the rule; and the repair."""
        raise NotImplementedError

    @property
    def steps_per_epoch(self) -> int:
        """Number of full batches in an epoch."""
        return len(self.values) // self.batch_size

    def rows(self, position: int) -> np.ndarray:
        """Return the rows of the batch at a position, int64 `(n,)`."""
        epoch, index = divmod(position, self.steps_per_epoch)
        draws = np.arange(index * self.batch_size, (index + 1) * self.batch_size)
        return permutation(draws, len(self.values), mix(self.seed, epoch))

    def batch(self, position: int) -> Batch:
        """Return the batch at a position of the pass; changes no state."""
        rows = self.rows(position)
        own = rows[self.own(len(rows))]
        return self.tokens(rows), {self.target: self.values[own]}


class ScoredBatches(RowBatches):
    """Batches `(x, y)` of scored pairs; one pass holds all epochs.

    x: `source_token_ids` and `source_padding_mask` of the first sentences,
    `target_token_ids` and `target_padding_mask` of the second ones, int32
    `(n, length)`, each side padded at the right. y: `gold`, float32 `(n,)`. Every epoch
    contains each row once, in its own order, without a last batch that is not full. The
    seed decides the orders.

    Args:
        rows: `(gold, sentence 1, sentence 2)`, gold in [0, 1]; see `scaled_rows`.
        encoder: Provides `tokenizer` and `max_length`.
        batch_size: Number of rows in a batch.
        max_length: Maximum number of tokens of a sentence; by default that of the
            encoder.
        epochs: Epochs in a pass.
        seed: Decides the order.
        multiple: Padded lengths are multiples of this.
        buckets: See `PairBatches`.
        steps: Maximum number of batches in the pass.

    Raises:
        InputError: There are fewer rows than a batch needs, a gold score is outside
            [0, 1], or a number is out of range.

    Example:
        >>> rows = [(0.9, "A dog runs.", "A dog ran."), (0.0, "Tea.", "A train.")]
        >>> encoder = msd.testing.tiny_encoder()
        >>> batches = msd.data.ScoredBatches(rows, encoder, batch_size=2, epochs=3)
        >>> x, y = batches[0]
        >>> len(batches), sorted(y["gold"].tolist())
        (3, [0.0, 0.8999999761581421])
    """

    target, dtype = "gold", "float32"

    def rule(self, values: np.ndarray) -> tuple[np.ndarray, str, str]:
        """Return which similarities are valid, the rule, and the repair."""
        repair = "Scale them with `scaled_rows(rows, scale)`."
        fits = (values >= 0) & (values <= 1)
        return fits, "Gold similarities must be in [0, 1].", repair


class InferenceBatches(RowBatches):
    """Batches `(x, y)` of sentence pairs with an inference label.

    They are like `ScoredBatches`, but y has `label`, int32 `(n,)`.

    Args:
        rows: `(label, premise, hypothesis)`, labels from 0; see `read_inference`.
        encoder: Provides `tokenizer` and `max_length`.
        classes: Number of classes.
        **options: See `ScoredBatches`.

    Raises:
        InputError: There are fewer rows than a batch needs, a label is no class, or a
            number is out of range.

    Example:
        >>> rows = [(0, "A dog runs.", "A dog."), (2, "A dog runs.", "A cat runs.")]
        >>> encoder = msd.testing.tiny_encoder()
        >>> x, y = msd.data.InferenceBatches(rows, encoder, batch_size=2)[0]
        >>> sorted(y["label"].tolist())
        [0, 2]
    """

    target, dtype = "label", "int32"

    def __init__(
        self, rows: Sequence[GradedPair], encoder: Any, classes: int = 3, **options: Any
    ) -> None:
        self.classes = classes
        super().__init__(rows, encoder, **options)

    def rule(self, values: np.ndarray) -> tuple[np.ndarray, str, str]:
        """Return which labels are valid, the rule, and the repair."""
        repair = "Read the rows with `read_inference`, or give `classes`."
        fits = np.isin(values, np.arange(self.classes))
        return fits, f"Labels must be ids from 0 to {self.classes - 1}.", repair


class Inferences(NamedTuple):
    """The content of a file of natural language inference.

    Attributes:
        rows: `(label, premise, hypothesis)`, labels as ids from 0.
        skipped: Number of rows that were skipped because the annotators did not agree.
    """

    rows: list[tuple[int, str, str]]
    skipped: int


def read_inference(path: str | Path, classes: Sequence[str] = CLASSES) -> Inferences:
    r"""Read a file of natural language inference, as TSV or JSON Lines.

    The first line of a TSV has the names of its columns; there is no quoting. Columns,
    or keys of JSON objects, are found by name: `sentence1`, `sentence2` and
    `gold_label` as in SNLI, MultiNLI and XNLI, or `premise`, `hypothesis` and `label`.
    Others are skipped. Rows with the label "-" (or -1) are skipped and counted. Control
    characters become blanks and invisible marks are removed, as in `normalize`.

    Args:
        path: The file, JSON Lines if its name ends in `.jsonl`; also `.gz`.
        classes: Names of the labels, in the order of their ids; those of ASSIN are
            "none", "entailment" and "paraphrase". A label is such a name, in any case,
            or an id.

    Raises:
        InputError: The file is missing or damaged, a column is missing, or a label is
            not a class.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("pets.tsv").write_text(
        ...     "gold_label\tsentence1\tsentence2\n"
        ...     "entailment\tA dog runs.\tAn animal runs.\n"
        ...     "-\tA dog runs.\tA dog is late.\n"
        ... )
        >>> msd.data.read_inference("pets.tsv")
        Inferences(rows=[(0, 'A dog runs.', 'An animal runs.')], skipped=1)
    """
    names = [_name(label) for label in classes]
    rows, skipped = [], 0
    for where, row in _rows(as_path(path)):
        premise, hypothesis, label = (_value(row, part, where) for part in COLUMNS)
        if not (isinstance(premise, str) and isinstance(hypothesis, str)):
            raise InputError(
                f"{where}: premise and hypothesis must be texts. Received: "
                f"{premise!r:.40} and {hypothesis!r:.40}. Repair the line, or remove "
                "it."
            )
        utf8(premise + hypothesis, where)
        if str(label) in UNDECIDED:
            skipped += 1
        else:
            number = _id(label, names, where)
            rows.append((number, visible(premise), visible(hypothesis)))
    return Inferences(rows, skipped)


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (file and line number, for messages; the row by names of columns)."""
    if unpacked(path).suffix == ".jsonl":
        for number, line in read_lines(path):
            yield f"`{path}`, line {number}", json_object(path, number, line, FORM)
        return
    lines = tabbed(path)
    _, names = next(lines)
    for where, fields in lines:
        yield where, dict(zip(names, fields, strict=True))


def _value(row: Mapping[str, Any], part: str, where: str) -> Any:
    """Return premise, hypothesis or label of a row."""
    for name in COLUMNS[part]:
        if name in row:
            return row[name]
    raise InputError(
        f"{where}: the column of the {part} must be called "
        f"{' or '.join(f'`{name}`' for name in COLUMNS[part])}. Received the columns: "
        f"{', '.join(map(repr, row)) or 'none'}. Rename it; a TSV has them in its "
        "first line."
    )


def _name(label: Any) -> str:
    name = str(label).lower()
    return OTHER_NAMES.get(name, name)


def _id(label: Any, names: Sequence[str], where: str) -> int:
    name = _name(label) if isinstance(label, str | int) else ""
    if name in names:
        return names.index(name)
    ids = [str(number) for number in range(len(names))]
    if name in ids:
        return ids.index(name)
    raise InputError(
        f"{where}: a label must be one of {', '.join(names)}, or its id from 0. "
        f"Received: {label!r:.40}. {nearest(name, names)} Repair it, or give other "
        "`classes`."
    )
