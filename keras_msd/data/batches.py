"""Batches for `fit` on any Keras backend."""

import copy
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_msd.arrays import padded_length
from keras_msd.checks import InputError, at_least
from keras_msd.choices import SIDES
from keras_msd.data.order import BatchStream
from keras_msd.data.pair import Pair, Pairs, pair_code
from keras_msd.data.store import GuideStore, ShardedStore
from keras_msd.data.tables import PairTable, TextTable, TokenRows, table_key
from keras_msd.distribute import device_settings
from keras_msd.io.files import digest

Corpus = Pairs | PairTable | TextTable | Iterable[Pair]
Batch = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]
Store = GuideStore | ShardedStore
AHEAD = ThreadPoolExecutor(1, "keras_msd_batches")
READ_AHEAD = 4  # batches; making one takes less time than a training step


class Batches(keras.utils.PyDataset):
    """Batches `(x, y)`, selected by their number in a pass.

    A subclass defines `rows(position)` and `batch(position)`, and sets all attributes
    but `whole` and `share`. A thread prepares the next batch during a training step.

    Attributes:
        table: The tokens of all rows.
        multiple: Padded lengths are multiples of this.
        buckets: The shapes that batches may have, see `least_padding`; None for any.
        position: Position in the stream where the current pass begins.
        steps: Number of batches in a pass.
        identity: Hash of everything that decides the stream, including the
            fingerprints of the guides.
        whole: The batches that these were taken from, if any.
        share: The process whose rows are read, from 0; the number of processes; and the
            devices of each. The whole batch does not depend on it.
    """

    table: TokenRows
    multiple: int
    buckets: Sequence[tuple[int, int]] | None
    position: int
    steps: int
    identity: str
    whole: "Batches | None" = None
    share: tuple[int, int, int] = (0, 1, 1)
    _next: "tuple[int, Future[Batch]] | None" = None

    def __len__(self) -> int:
        """Return the number of batches in a pass."""
        return self.steps

    def __getitem__(self, index: int) -> Batch:
        """Return batch `index` of the current pass."""
        if not 0 <= index < len(self):
            raise IndexError(f"batch {index} of {len(self)}")
        place, made = self.position + index, self._next
        self._next = None
        if index + 1 < len(self):
            self._next = place + 1, AHEAD.submit(self.batch, place + 1)
        return made[1].result() if made and made[0] == place else self.batch(place)

    @property
    def max_length(self) -> int:
        """Most tokens of a text."""
        return self.table.max_length

    def rows(self, position: int) -> np.ndarray:
        """Return the table's rows of the batch at a position, int64 `(n,)`."""
        raise NotImplementedError

    def batch(self, position: int) -> Batch:
        """Return the batch at a position of the stream; changes no state."""
        raise NotImplementedError

    def shape(self, position: int) -> tuple[int, int, int]:
        """Return the rows of a batch and the lengths that its sides are padded to."""
        rows = self.rows(position)
        return len(rows), *self.padded_lengths(rows)

    def padded_lengths(self, rows: np.ndarray) -> tuple[int, int]:
        """Return the lengths that both sides of a batch of some rows are padded to."""
        source, target = (
            padded_length(longest, self.max_length, self.multiple)
            for longest in self.table.longest(rows)
        )
        if self.buckets is None:
            return source, target
        return next(it for it in self.buckets if source <= it[0] and target <= it[1])

    def tokens(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return this process's part of x for the batch of some rows, less `group`."""
        own, x = rows[self.own(len(rows))], {}
        for side, length in zip(SIDES, self.padded_lengths(rows), strict=True):
            ids, mask = self.table.padded(side, own, length)
            x[f"{side}_token_ids"], x[f"{side}_padding_mask"] = ids, mask
        return x

    def shapes(self) -> int:
        """Return the number of shapes in a pass; XLA compiles each of them."""
        places = range(self.position, self.position + self.steps)
        return len(set(map(self.shape, places)))

    def after(self, count: int) -> "Batches":
        """Return the pass without its first `count` batches."""
        rest = copy.copy(self)
        rest.position, rest.steps = self.position + count, self.steps - count
        rest.whole = self  # keeps its temporary folder
        return rest

    def of_process(self, index: int, count: int, devices: int = 1) -> "Batches":
        """Return the same batches with only the rows of one of several processes.

        The order, the padded lengths and `group` are those of the whole batch, so the
        parts of all processes, one after the other, are the batch.

        Args:
            index: Number of the process, from 0.
            count: Number of processes.
            devices: Number of devices of each process, which share its rows.
        """
        part = copy.copy(self)
        part.share, part.whole = (index, count, devices), self
        part._next = None  # holds rows of another share
        return part

    def own(self, rows: int) -> slice:
        """Return the rows of a batch that belong to this process.

        Raises:
            InputError: The devices' shares would differ.
        """
        index, count, devices = self.share
        if rows % (count * devices):
            raise InputError(
                "Every device must have as many rows of a batch. Received: a batch of "
                f"{rows} rows, {count} processes with {devices} devices each. Choose a "
                f"`batch_size` that {count * devices} divides."
            )
        return slice(index * rows // count, (index + 1) * rows // count)


class PairBatches(Batches):
    """Batches `(x, y)` of pairs with guide vectors.

    x: `source_token_ids`, `source_padding_mask`, `target_token_ids`,
    `target_padding_mask`, int32 `(n, length)`, each side padded at the right; `group`,
    int32 `(n,)`, the index of the first row of the batch with the same source text. y:
    for each guide float32 `(n, dim)`.

    The batches are one endless stream that the seed decides. An epoch has as many draws
    as there are pairs. Each pass is the next epoch; with `epochs`, one pass holds all
    of them.

    A stage reads the batches ahead, in order. Another Keras model needs `fit(...,
    shuffle=False)`, because Keras would shuffle them with its own seed; under
    TensorFlow, pass `tensorflow_dataset(batches)`.

    Args:
        pairs: A corpus, a list of pairs, or a table already on disk.
        encoder: Provides `tokenizer` and `max_length`.
        guides: Name in y -> (store, "source" or "target"). Vectors that are missing
            from a store are computed first.
        batch_size: Number of pairs in a batch.
        max_length: Maximum number of tokens of a text; by default that of the encoder.
        epochs: Epochs in a pass; by default each pass is the next epoch.
        seed: Decides the order.
        temperature: Infinity draws from all files equally often, 1 in proportion to
            their sizes.
        folder: Folder in which tables are kept for later use; by default a temporary
            folder that is deleted with this object.
        multiple: Padded lengths are multiples of this.
        buckets: Maximum number of shapes, each a source and a target length. They are
            chosen from the data to minimise padding. XLA compiles a training step once
            for each. The default is 6 if XLA compiles the step (JAX; TensorFlow on a
            GPU), else no limit.
        steps: Maximum number of batches in the pass, with `epochs`. If that is less
            than an epoch, only the vectors that these batches need are computed.
        weights: Factors of the files' shares of the draws, by name of the file.

    Attributes:
        table: The `PairTable`.

    Raises:
        InputError: A text cannot be read, an argument is out of range, the table was
            made with another tokenizer, or a guide does not support a language.

    Example:
        >>> pairs, encoder = msd.testing.tiny_pairs(), msd.testing.tiny_encoder()
        >>> guides = {"teacher": (msd.data.GuideStore(encoder, "vectors"), "source")}
        >>> batches = msd.data.PairBatches(pairs, encoder, guides, batch_size=4)
        >>> x, y = batches[0]
        >>> len(batches), x["group"].shape, y["teacher"].shape
        (2, (4,), (4, 16))
    """

    def __init__(
        self,
        pairs: Corpus,
        encoder: Any,
        guides: Mapping[str, tuple[Store, str]],
        batch_size: int = 64,
        max_length: int | None = None,
        epochs: int | None = None,
        seed: int = 0,
        temperature: float = float("inf"),
        folder: str | Path | None = None,
        multiple: int = 1,
        buckets: int | None = None,
        steps: int | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        if buckets is None:
            buckets = device_settings().buckets
        at_least(1, epochs=epochs, steps=steps)
        if steps is not None and epochs is None:
            raise InputError(
                f"`steps` ends a pass of `epochs`. Received: steps={steps}, no epochs. "
                "Give both."
            )
        if not isinstance(pairs, PairTable) and folder is None:
            folder = tempfile.mkdtemp(prefix="keras_msd_")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.table: PairTable = _table_for(pairs, encoder, max_length, folder)
        self.stream = BatchStream(
            self.table, batch_size, seed, temperature, multiple, weights, buckets
        )
        self.multiple, self.buckets = self.stream.multiple, self.stream.buckets
        self.position = 0
        self.steps = self.stream.steps(epochs or 1)
        self._endless = epochs is None
        read = None
        if steps is not None:
            self.steps = min(self.steps, steps)
            read = self._rows_read()
        self._last_given = False
        for name, guide in guides.items():
            _check_guide(name, guide)
        self._guides = {
            name: (store, guide_rows(self.table, store, side, read))
            for name, (store, side) in guides.items()
        }
        self.identity = digest(
            self.table.key,
            repr((batch_size, seed, temperature, multiple, self.stream.window)),
            *([f"buckets {self.stream.buckets}"] if buckets else ()),
            *([repr(sorted(weights.items()))] if weights else ()),
            *(
                part
                for name, (store, side) in sorted(guides.items())
                for part in (name, store.fingerprint, side)
            ),
        )

    def _rows_read(self) -> np.ndarray | None:
        """Return the sorted rows of all batches; None if they make up an epoch."""
        places = range(self.position, self.position + self.steps)
        if len(places) >= self.stream.steps(1):
            return None
        return np.unique(np.concatenate([self.rows(place) for place in places]))

    def __getitem__(self, index: int) -> Batch:
        """Return batch `index` of the current pass."""
        batch = super().__getitem__(index)
        self._last_given |= index == self.steps - 1
        return batch

    def after(self, count: int) -> Batches:
        """Return the pass without its first `count` batches.

        Raises:
            InputError: The pass has no end, because `epochs` was not given.
        """
        if self._endless:
            raise InputError(
                "Training that can go on where it stopped needs an end. Received: "
                "batches without `epochs`. Give `PairBatches(..., epochs=3)`."
            )
        return super().after(count)

    def rows(self, position: int) -> np.ndarray:
        """Return the table's rows of the batch at a position, int64 `(n,)`."""
        return self.stream.rows(position)

    def batch(self, position: int) -> Batch:
        """Return the batch at a position of the stream; changes no state."""
        rows = self.rows(position)
        x, own = self.tokens(rows), self.own(len(rows))
        groups = self.table.groups(rows)
        _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
        x["group"] = first[inverse[own]].astype(np.int32)
        y = {
            name: store.vectors(where[rows[own]])
            for name, (store, where) in self._guides.items()
        }
        return x, y

    def on_epoch_end(self) -> None:
        """Continue with the next epoch after the last batch of this one.

        Keras also calls this after it has read a first batch to build a model.
        """
        if self._endless and self._last_given:
            self.position += self.steps
        self._last_given = False


def _table_for(
    pairs: Corpus, encoder: Any, max_length: int | None, folder: str | Path | None
) -> PairTable:
    """Return the table of a corpus for an encoder's tokenizer.

    Args:
        pairs: A corpus, a list of pairs, or a table.
        encoder: Provides `tokenizer` and `max_length`.
        max_length: Maximum number of tokens of a text; by default that of the encoder.
        folder: Folder of the tables; their names depend on their content.

    Raises:
        InputError: See `PairTable.build`; or the given table does not fit the encoder.
    """
    tokenizer, longest = encoder.tokenizer, longest_of(encoder, max_length)
    if isinstance(pairs, PairTable):
        if pairs.tokenizer_fingerprint != tokenizer.fingerprint:
            raise InputError(
                f"The table in `{pairs.folder}` holds token ids of another tokenizer "
                "than the encoder's. Build it with `encoder.tokenizer`."
            )
        as_asked = max_length in (None, pairs.max_length)
        if pairs.max_length > longest or not as_asked:
            raise InputError(
                f"The table in `{pairs.folder}` must be cut at {longest} tokens. "
                f"Received: max_length={pairs.max_length}. Build it with "
                f"max_length={longest}."
            )
        return pairs
    folder = Path(folder or ".")
    if not isinstance(pairs, Pairs | TextTable):
        pairs = Pairs.from_list(pairs)
    if isinstance(pairs, Pairs):
        pairs = TextTable.build(pairs, folder / f"texts-{pairs.digest()[:16]}")
    key = table_key(pairs.key, tokenizer, longest)
    return PairTable.build(
        pairs, tokenizer, folder / f"tokens-{key[:16]}", max_length=longest
    )


def _check_guide(name: str, guide: Any) -> None:
    """Raise `InputError` unless a guide is (store, side)."""
    if not (
        isinstance(guide, tuple)
        and len(guide) == 2
        and isinstance(guide[0], Store)
        and guide[1] in SIDES
    ):
        raise InputError(
            'A guide must be (store, "source") or (store, "target"). Received: '
            f"{name}={guide!r:.120}. Make the store with `GuideStore(guide, folder)`."
        )


def check_reads(guide: Any, side: str, file: Any) -> None:
    """Raise `InputError` if a guide does not support a file's language.

    Args:
        guide: May have `languages`, the codes of the languages that it supports; by
            default all.
        side: The side that it embeds, "source" or "target".
        file: A `PairFile` or `FileRange`.
    """
    known = getattr(guide, "languages", None)
    language = file.source_language if side == "source" else file.language
    if known is not None and language not in known:
        pair = pair_code(file.source_language, file.language)
        raise InputError(
            f"The guide `{getattr(guide, 'name', type(guide).__name__)}` reads "
            f"{', '.join(known)}. Received: pairs `{pair}` in "
            f"`{file.name}`, of which it would read the {side} texts, in `{language}`. "
            "Take a multilingual teacher (in a recipe `teacher.multilingual` says that "
            "it is one), or leave these pairs out."
        )


def guide_rows(
    table: PairTable, store: Store, side: str, read: np.ndarray | None = None
) -> np.ndarray:
    """Return the store's row of every pair, int64 `(n,)`, in a temporary file.

    Missing vectors are computed first.

    Args:
        table: The pairs.
        store: The store of the vectors.
        side: "source" or "target".
        read: The rows of the table that are needed, sorted; the others get -1. None for
            all rows.

    Raises:
        InputError: The guide does not support the language of the side.
    """
    for file in table.files:
        check_reads(store.guide, side, file)
    asked = (text for _, texts in _texts_read(table, side, read) for text in texts)
    store.build(asked, total=len(table) if read is None else len(read))
    with tempfile.TemporaryFile() as handle:
        rows = np.memmap(handle, np.int64, "w+", shape=len(table))
    rows[:] = -1
    for places, texts in _texts_read(table, side, read):
        rows[places] = store.rows(texts)
    return rows


def _texts_read(
    table: PairTable, side: str, read: np.ndarray | None
) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Yield the rows of a table that are needed and their texts, some at a time."""
    start = 0
    for texts in table.texts.chunks(side):
        stop = start + len(texts)
        places = np.arange(start, stop)
        if read is not None:
            first, end = np.searchsorted(read, (start, stop))
            places = read[first:end]
        yield places, [texts[place - start] for place in places]
        start = stop


def longest_of(encoder: Any, max_length: int | None) -> int:
    """Return the maximum number of tokens, by default the encoder's."""
    longest = max_length or encoder.max_length
    if longest > encoder.max_length:
        raise InputError(
            "`max_length` must be at most the encoder's. Received: "
            f"max_length={longest}, encoder {encoder.max_length}."
        )
    return longest


def tensorflow_dataset(batches: Batches) -> Any:
    """Return batches `(x, y)` for `fit` of any Keras model under TensorFlow.

    If you pass the batches themselves, Keras derives all shapes from the first two.
    Stages call this function. Each pass of the dataset is the next pass of the batches,
    which ends when its last batch was read.

    Args:
        batches: `PairBatches`, `ScoredBatches` or `InferenceBatches`.

    Returns:
        A dataset of `(x, y)`; the first axis is static.

    Example:
        >>> pairs, encoder = msd.testing.tiny_pairs(), msd.testing.tiny_encoder()
        >>> guides = {"teacher": (msd.data.GuideStore(encoder, "vectors"), "source")}
        >>> batches = msd.data.PairBatches(pairs, encoder, guides, batch_size=4)
        >>> dataset = msd.data.tensorflow_dataset(batches)
        >>> int(dataset.cardinality()), dataset.element_spec[1]["teacher"].shape
        (2, TensorShape([4, 16]))
    """
    import tensorflow as tf  # JAX goes without

    # TensorFlow may keep a function for longer than its dataset. A weak reference lets
    # the stores and encoders of the batches go with the dataset.
    source = weakref.ref(batches)
    x, y = batches.batch(batches.position)
    texts = {name: (len(it), *[None] * (it.ndim - 1)) for name, it in x.items()}
    signature = (
        {name: tf.TensorSpec(texts[name], it.dtype) for name, it in x.items()},
        {name: tf.TensorSpec(it.shape, it.dtype) for name, it in y.items()},
    )
    specs = tf.nest.flatten(signature)

    def read(index: Any) -> Any:
        own: Any = source()
        batch = own[int(index)]
        if index == len(own) - 1:  # `fit` stops asking here
            own.on_epoch_end()
        return tf.nest.flatten(batch)

    def batch(index: Any) -> Any:
        values = tf.numpy_function(read, [index], [spec.dtype for spec in specs])
        for value, spec in zip(values, specs, strict=True):
            value.set_shape(spec.shape)
        return tf.nest.pack_sequence_as(signature, values)

    # In order and one at a time, because neighbours share a sorted window.
    dataset = tf.data.Dataset.range(len(batches)).map(batch)
    dataset = dataset.prefetch(READ_AHEAD)
    # There is nothing to tune here. TensorFlow's tuner doubles its sleep each time, and
    # sometimes a pass has to wait at its end for it.
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = dataset.with_options(options)
    dataset.batches = batches
    return dataset
