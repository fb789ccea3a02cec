"""An exported encoder, loaded back in the runtime it was made for."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.files import digest
from keras_msd.progress import track

Run = Callable[[list[str]], np.ndarray]


class Artefact:
    """Maps sentences to vectors as the exported encoder did.

    Args:
        path: Where it was loaded from.
        card: What `card.json` says.
        run: The runtime: a list of sentences to float32 `(n, dim)`.
    """

    def __init__(self, path: Path, card: dict[str, Any], run: Run) -> None:
        self.path, self.card, self._run = path, card, run

    @property
    def dim(self) -> int:
        """Width of a sentence vector."""
        return self.card["dim"]

    @property
    def fingerprint(self) -> str:
        """Hash of the files' checksums."""
        files = sorted(self.card["files"].items())
        return digest(*(f"{name} {facts['sha256']}" for name, facts in files))

    def encode(
        self,
        texts: Iterable[str],
        batch_size: int = 64,
        normalize: bool = False,
        progress: bool = True,
    ) -> np.ndarray:
        """Turn sentences into vectors.

        Args:
            texts: Sentences; any iterable of any length, empty strings included.
            batch_size: Sentences in one call of the runtime.
            normalize: Scale the vectors to length one, if the model does not.
            progress: Show a bar when it takes longer than a second.

        Returns:
            float32 `(n, dim)`, in the order of `texts`.

        Raises:
            InputError: `texts` is a single string.
        """
        if isinstance(texts, str):
            raise InputError(
                f"`texts` must be a list of sentences. Received: the text "
                f"{texts!r:.60}. Put it in a list."
            )
        texts = list(texts)
        # Sentences of like length share a batch, so that little padding is computed.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row].encode()))
        vectors = np.zeros((len(texts), self.dim), np.float32)
        starts: Iterable[int] = range(0, len(texts), batch_size)
        if progress:
            starts = track(starts, -(-len(texts) // batch_size), "Encoding")
        for start in starts:
            rows = order[start : start + batch_size]
            vectors[rows] = self._run([texts[row] for row in rows])
        if normalize:
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors /= np.maximum(norms, 1e-12)
        return vectors
