"""A warning while there is still time: every sentence gets the same vector."""

import logging
from typing import Any

import keras
import numpy as np

from keras_msd import checks

logger = logging.getLogger(__name__)


class CollapseMonitor(keras.callbacks.Callback):
    """Warn, once, when the embeddings of different sentences become alike.

    Every `every` updates, up to update `until`, the stage embeds the English side of
    `x`, each distinct line once, and takes the mean cosine over all pairs of lines.

    Args:
        x: Inputs of one batch, as the stage takes them, with two distinct lines or
            more.
        threshold: Mean cosine above which a warning is logged.
        every: Updates between two looks.
        until: Last update that is looked at.
    """

    def __init__(
        self,
        x: dict[str, Any],
        threshold: float = 0.95,
        every: int = 50,
        until: int = 500,
    ) -> None:
        super().__init__()
        checks.at_least(1, every=every, until=until)
        self.x, self.threshold = x, threshold
        self.every, self.until = every, until
        self.updates, self.warned = 0, False

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Look at the embeddings when it is time."""
        self.updates += 1
        if self.warned or self.updates > self.until or self.updates % self.every:
            return
        cosine = self.mean_cosine()
        if cosine > self.threshold:
            self.warned = True
            logger.warning(
                "Embeddings collapse: the mean cosine between different sentences is "
                "%.3f after %d updates (limit %.3f). Check that the guide's vectors "
                "differ, lower the learning rate or lengthen the warm-up.",
                cosine,
                self.updates,
                self.threshold,
            )

    def mean_cosine(self) -> float:
        """Return the mean cosine over pairs of distinct English lines."""
        vectors = self.model(self.x, training=False)["source"]
        rows = np.unique(np.asarray(self.x["group"]), return_index=True)[1]
        vectors = keras.ops.convert_to_numpy(vectors)[rows]
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        vectors = vectors / np.maximum(norms, 1e-12)
        count = len(rows)
        total = np.square(vectors.sum(axis=0)).sum() - np.square(vectors).sum()
        return float(total / (count * (count - 1)))
