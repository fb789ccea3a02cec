"""One guide's vectors in several stores, so that several machines can write them."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from keras_msd.checks import InputError, at_least
from keras_msd.data.store import META, Guide, GuideStore, checked_slices
from keras_msd.files import text_hash
from keras_msd.progress import track

DEFAULT = 16


class ShardedStore:
    """Vectors of one guide in several `GuideStore`s, selected by the sentence's hash.

    It is used wherever a `GuideStore` is. Each shard is a `GuideStore` in a folder of
    its own, and can be written and copied apart from the others.

    Args:
        guide: As of a `GuideStore`.
        folder: Where the shards live; it is made if it is not there.
        shards: How many there are in a new folder, by default 16.

    Attributes:
        stores: The `GuideStore` of each shard.

    Raises:
        InputError: As `GuideStore`; or the folder has another number of shards.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> store = msd.data.ShardedStore(encoder, "shards", shards=4)
        >>> store.targets(["A dog.", "A cat.", "A dog."]).shape
        (3, 16)
        >>> len(store), len(store.stores)
        (2, 4)
    """

    def __init__(
        self, guide: Guide, folder: str | Path, shards: int | None = None
    ) -> None:
        at_least(1, shards=shards)
        self.guide, self.folder = guide, Path(folder)
        count = _count(self.folder, shards)
        folders = (self.folder / shard_name(shard, count) for shard in range(count))
        self.stores = [GuideStore(guide, place) for place in folders]
        self.dim, self.fingerprint = self.stores[0].dim, self.stores[0].fingerprint

    def __len__(self) -> int:
        return sum(map(len, self.stores))

    def targets(self, sentences: list[str]) -> np.ndarray:
        """Return the vectors of sentences, float32 `(n, dim)`; as a `GuideStore`."""
        return self.vectors(self.rows(sentences))

    def rows(self, sentences: list[str]) -> np.ndarray:
        """Return the row of each sentence, int64 `(n,)`; missing vectors are computed.

        Rows hold as long as this object lives.
        """
        count = len(self.stores)
        shards = np.array([shard_of(text, count) for text in sentences], np.int64)
        rows = np.empty(len(shards), np.int64)
        for shard in np.unique(shards).tolist():
            own = np.flatnonzero(shards == shard)
            found = self.stores[shard].rows([sentences[place] for place in own])
            rows[own] = found * count + shard
        return rows

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors at `rows`, a float32 copy `(n, dim)`."""
        inner, shards = np.divmod(np.asarray(rows, np.int64), len(self.stores))
        vectors = np.empty((len(inner), self.dim), np.float32)
        for shard in np.unique(shards).tolist():
            own = shards == shard
            vectors[own] = self.stores[shard].vectors(inner[own])
        return vectors

    def build(
        self, sentences: Iterable[str], total: int | None = None, progress: bool = True
    ) -> None:
        """Compute the vectors of all sentences that are not in the store.

        Args:
            sentences: Read as a stream; memory holds about a chunk for each shard.
            total: Number of sentences, if known, for the progress bar.
            progress: Show a bar when it takes longer than a second.

        Raises:
            InputError: As `GuideStore.build`.
        """
        size = sum(store.chunk_size for store in self.stores)
        slices = checked_slices(sentences, size)
        if progress:
            slices = track(slices, total=total, what="Guide vectors", steps=size)
        for texts in slices:
            self.rows(texts)


def shard_of(text: str | bytes, shards: int) -> int:
    """Return the shard that holds a text's vector."""
    return int.from_bytes(text_hash(text)[:8]) % shards


def shard_name(shard: int, shards: int) -> str:
    """Return the name of a shard's folder."""
    return f"{shard:05d}-of-{shards:05d}"


def _count(folder: Path, shards: int | None) -> int:
    """Return how many shards a folder has, by their names; a new one what is asked."""
    if (folder / META).exists():
        raise InputError(
            f"`{folder}` must hold shards. Received: one store. Open it with "
            "`GuideStore`, or give another folder."
        )
    there = {
        int(path.name.rpartition("-")[2]) for path in folder.glob("?????-of-?????")
    }
    count = shards or max(there, default=DEFAULT)
    if there - {count}:
        raise InputError(
            "`shards` must be that of the folder. Received: "
            f"shards={shards}; `{folder}` has {max(there)}. Leave it out."
        )
    return count
