"""Batches of sentence pairs with gold similarities, for `RegressSimilarity`."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.data.order import mix, permutation
from keras_msd.data.padding import pad_batch

ScoredRow = tuple[float, str, str]


class ScoredBatches(keras.utils.PyDataset):
    """Batches `(x, y)` of scored pairs, addressed by position; all epochs in one pass.

    x: `source_token_ids` and `source_padding_mask` of the first sentences,
    `target_token_ids` and `target_padding_mask` of the second ones, int32
    `(n, length)`, each side padded at the right to a multiple of `multiple`. y: `gold`,
    float32 `(n,)`. Every epoch has each row once, but for a last batch that is not
    full, in an order of its own that follows from the seed.

    Use `fit(..., shuffle=False)`. With the TensorFlow backend `fit` takes
    `scored_dataset`.

    Args:
        rows: `(gold, sentence 1, sentence 2)`, gold in [0, 1]: see
            `scored_rows.scaled_rows`.
        encoder: Has the `tokenizer` and the `max_length`.
        batch_size: Rows in a batch.
        max_length: Most tokens of a sentence; the encoder's by default.
        epochs: Epochs in a pass.
        seed: Chooses the order.
        multiple: Padded lengths are multiples of this.
        **kwargs: `workers` and `max_queue_size` of `PyDataset`.

    Raises:
        InputError: There are fewer rows than a batch needs, a gold score is outside
            [0, 1], or a number is out of range.
    """

    def __init__(
        self,
        rows: Sequence[ScoredRow],
        encoder: Any,
        batch_size: int = 16,
        max_length: int | None = None,
        epochs: int = 1,
        seed: int = 0,
        multiple: int = 8,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        checks.at_least(1, batch_size=batch_size, epochs=epochs, multiple=multiple)
        self.gold = np.array([row[0] for row in rows], np.float32)
        fits = (self.gold >= 0) & (self.gold <= 1)
        if not fits.all():
            row = int(np.flatnonzero(~fits)[0])
            raise InputError(
                "Gold similarities must be in [0, 1]. Received: "
                f"{rows[row][0]:g} in row {row + 1}. Scale them with "
                "`scaled_rows(rows, scale)`."
            )
        if len(rows) < batch_size:
            raise InputError(
                "`batch_size` must be at most the number of rows. Received: "
                f"batch_size={batch_size}, {len(rows)} rows. Choose a smaller one."
            )
        longest = max_length or encoder.max_length
        if longest > encoder.max_length:
            raise InputError(
                "`max_length` must be at most the encoder's. Received: "
                f"max_length={longest}, encoder {encoder.max_length}."
            )
        tokenizer = encoder.tokenizer
        self._ids = {
            side: tokenizer.encode([row[column] for row in rows], longest)
            for side, column in (("source", 1), ("target", 2))
        }
        self._pad_id = tokenizer.pad_id
        self.batch_size, self.max_length = batch_size, longest
        self.epochs, self.seed, self.multiple = epochs, seed, multiple

    @property
    def steps_per_epoch(self) -> int:
        """Number of full batches in an epoch."""
        return len(self.gold) // self.batch_size

    def __len__(self) -> int:
        """Return the number of batches in the pass."""
        return self.epochs * self.steps_per_epoch

    def rows(self, index: int) -> np.ndarray:
        """Return the rows of batch `index`, int64 `(n,)`."""
        epoch, index = divmod(index, self.steps_per_epoch)
        draws = np.arange(index * self.batch_size, (index + 1) * self.batch_size)
        return permutation(draws, len(self.gold), mix(self.seed, epoch))

    def __getitem__(
        self, index: int
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return batch `index`."""
        if not 0 <= index < len(self):
            raise IndexError(f"batch {index} of {len(self)}")
        rows = self.rows(index)
        x: dict[str, np.ndarray] = {}
        for side, ids in self._ids.items():
            padded = pad_batch(
                [ids[row] for row in rows],
                self._pad_id,
                self.max_length,
                self.multiple,
            )
            x |= {f"{side}_{part}": values for part, values in padded.items()}
        return x, {"gold": self.gold[rows]}

    def on_epoch_begin(self) -> None:
        """Refuse what Keras cannot do.

        Raises:
            InputError: The backend is TensorFlow and the batches differ in length.
        """
        one_length = self.multiple >= self.max_length
        if keras.backend.backend() == "tensorflow" and not one_length:
            raise InputError(
                "With TensorFlow give `fit` a `scored_dataset(...)` of the same "
                "arguments. Received: `ScoredBatches`, for which Keras takes the "
                "shapes of all batches from the first two, and its batches differ in "
                f"length. (Or pad all to one length: multiple={self.max_length}.)"
            )
