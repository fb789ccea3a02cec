"""Batches for `fit` on any Keras backend, without TensorFlow."""

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.data.batch_sources import Corpus, checked_guide, guide_rows, table_for
from keras_msd.data.collect import SIDES
from keras_msd.data.padding import padded_length
from keras_msd.data.pair_table import PairTable
from keras_msd.data.store import GuideStore
from keras_msd.data.stream import BatchStream


class PairBatches(keras.utils.PyDataset):
    """Batches `(x, y)` of pairs with guide vectors, addressed by position.

    x: `source_token_ids`, `source_padding_mask`, `target_token_ids`,
    `target_padding_mask`, int32 `(n, length)`, each side padded at the right to a
    multiple of `multiple`; `group`, int32 `(n,)`, the index of the first row of the
    batch with the same English text. y: for each guide float32 `(n, dim)`.

    All batches of training form one endless stream that follows from the seed. A pass
    is an epoch, as many draws as there are pairs, and the next pass goes on behind it;
    with `epochs` a single pass has them all. To go on after `k` batches give `start=k`.

    Use `fit(..., shuffle=False)`: the order is random already, and Keras would shuffle
    it with a seed of its own. With the TensorFlow backend `fit` takes `pair_dataset`.

    Args:
        pairs: A corpus; a list of pairs; or a table already on disk.
        encoder: Has the `tokenizer` and the `max_length`.
        guides: Name in y -> (store, "source" or "target"); vectors that are missing
            from a store are computed first.
        batch_size: Pairs in a batch.
        token_budget: Instead of `batch_size`: most tokens of a batch, padding and both
            sides included.
        max_length: Most tokens of a text; the encoder's by default.
        epochs: Epochs in a pass; by default each pass is the next epoch.
        seed: Chooses the order.
        temperature: Infinity draws all files equally often, 1 by their size.
        folder: Where tables are kept for the next time; by default in a temporary
            folder that is deleted with this object.
        drop_remainder: Leave out the last, smaller batch of an epoch.
        start: Batches of the stream to leave out.
        multiple: Padded lengths are multiples of this.
        **kwargs: `workers` and `max_queue_size` of `PyDataset`.

    Attributes:
        table: The `PairTable`.
        position: Place in the stream where the current pass begins.

    Raises:
        InputError: A text cannot be read, an argument is out of range, or a table was
            made with another tokenizer.
    """

    def __init__(
        self,
        pairs: Corpus,
        encoder: Any,
        guides: Mapping[str, tuple[GuideStore, str]],
        batch_size: int = 64,
        token_budget: int | None = None,
        max_length: int | None = None,
        epochs: int | None = None,
        seed: int = 0,
        temperature: float = float("inf"),
        folder: str | Path | None = None,
        drop_remainder: bool = True,
        start: int = 0,
        multiple: int = 8,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        checks.at_least(0, start=start)
        if not isinstance(pairs, PairTable) and folder is None:
            folder = tempfile.mkdtemp(prefix="keras_msd_")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.table = table_for(pairs, encoder, max_length, folder)
        self.stream = BatchStream(
            self.table,
            batch_size,
            token_budget,
            seed,
            temperature,
            drop_remainder,
            multiple,
        )
        self.position = start
        self._steps = self.stream.steps(1)
        self._endless = epochs is None
        if epochs is not None:
            checks.at_least(1, epochs=epochs)
            self._steps = self.stream.steps(epochs) - start
            if self._steps < 1:
                raise InputError(
                    "`start` must be below the number of batches. Received: "
                    f"start={start}, {self._steps + start} batches in {epochs} epochs."
                )
        self._last_given = False
        self._guides = {
            name: (checked_guide(name, guide)[0], guide_rows(self.table, *guide))
            for name, guide in guides.items()
        }

    def __len__(self) -> int:
        """Return the number of batches in a pass."""
        return self._steps

    def __getitem__(
        self, index: int
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return batch `index` of the current pass."""
        if not 0 <= index < self._steps:
            raise IndexError(f"batch {index} of {self._steps}")
        batch = self.batch(self.position + index)
        if index == self._steps - 1:
            self._last_given = True
        return batch

    def batch(
        self, position: int
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return the batch at any place of the stream; no state changes."""
        rows = self.stream.rows(position)
        x = {}
        for side in SIDES:
            longest = int(self.table.lengths(side, rows).max())
            length = padded_length(longest, self.table.max_length, self.stream.multiple)
            ids, mask = self.table.padded(side, rows, length)
            x[f"{side}_token_ids"], x[f"{side}_padding_mask"] = ids, mask
        groups = self.table.groups(rows)
        _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
        x["group"] = first[inverse].astype(np.int32)
        y = {
            name: store.vectors(where[rows])
            for name, (store, where) in self._guides.items()
        }
        return x, y

    @property
    def dims(self) -> dict[str, int]:
        """Width of each guide's vectors."""
        return {name: store.dim for name, (store, _) in self._guides.items()}

    def on_epoch_begin(self) -> None:
        """Refuse what Keras cannot do.

        Raises:
            InputError: The backend is TensorFlow and the batches differ in length.
        """
        one_length = self.stream.multiple >= self.table.max_length
        if keras.backend.backend() == "tensorflow" and not one_length:
            raise InputError(
                "With TensorFlow give `fit` a `pair_dataset(...)` of the same "
                "arguments. Received: `PairBatches`, for which Keras takes the shapes "
                "of all batches from the first two, and its batches differ in length. "
                f"(Or pad all to one length: multiple={self.table.max_length}.)"
            )

    def on_epoch_end(self) -> None:
        """Go on to the next epoch, if the last batch of this one was asked for.

        Keras also calls this after it looked at the first batch to build a model.
        """
        if self._endless and self._last_given:
            self.position += self._steps
        self._last_given = False
