"""The order of training, computed for any position without storing a list.

An epoch has as many draws as the table has rows. A permutation of the epoch maps draw t
to a file and an ordinal in that file; a permutation of the file maps the ordinal to a
row. Nothing is stored between draws. So the state of the sampler is one integer, and
its memory does not grow with the corpus.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from keras_msd.arrays import padded_length
from keras_msd.checks import InputError, at_least
from keras_msd.choices import SIDES

# Sorted by length together: at least so many pairs, and so many batches.
WINDOW_PAIRS, WINDOW_BATCHES = 1 << 16, 64
SAMPLED = 1 << 17  # draws whose lengths decide the buckets
CANDIDATES = 32  # lengths of each side that buckets are chosen from
PART = 1 << 20  # rows of a table that are read at a time
ROUNDS = 8  # four make a Feistel network pseudo-random; small domains need more
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def _scramble(value: np.ndarray) -> np.ndarray:
    """Mix the bits of uint64 numbers (the finaliser of SplitMix64)."""
    value = value + GOLDEN
    value = (value ^ (value >> np.uint64(30))) * FIRST
    value = (value ^ (value >> np.uint64(27))) * SECOND
    return value ^ (value >> np.uint64(31))


def mix(*numbers: int | np.ndarray) -> np.ndarray:
    """Hash integers (or arrays of them, element by element) to uint64 seeds."""
    state = np.zeros(1, np.uint64)
    for number in numbers:
        state = _scramble(state ^ np.atleast_1d(number).astype(np.uint64))
    return state


def permutation(
    index: np.ndarray, size: int | np.ndarray, seed: int | np.ndarray
) -> np.ndarray:
    """Map numbers below `size` to numbers below `size`, each exactly once.

    It is a Feistel network over the smallest power of two that is at least `size`,
    applied again to results that are not below `size` (cycle walking). That takes less
    than two passes on average. Sizes and seeds may differ between elements.

    Args:
        index: Integers from 0 to `size - 1`, `(n,)`.
        size: Size of the domain, at least 1, scalar or `(n,)`.
        seed: Selects the permutation, scalar or `(n,)`.

    Returns:
        int64 `(n,)`.

    Source: Luby and Rackoff 1988 (network); Black and Rogaway 2002 (cycle walking).
    """
    result = np.array(index, np.int64)
    size = np.broadcast_to(np.asarray(size, np.int64), result.shape)
    keys = np.broadcast_to(mix(seed), result.shape)
    # frexp's exponent of x - 1 is its bit length, exact below 2^53.
    bits = np.maximum(np.frexp((size - 1).astype(np.float64))[1], 2).astype(np.uint64)
    walking = np.arange(len(result))
    while len(walking):
        once = _feistel(result[walking].astype(np.uint64), bits[walking], keys[walking])
        result[walking] = once.astype(np.int64)
        walking = walking[result[walking] >= size[walking]]
    return result


def _feistel(value: np.ndarray, bits: np.ndarray, keys: np.ndarray) -> np.ndarray:
    unit = np.uint64(1)
    low_bits = bits // np.uint64(2)
    high_bits = bits - low_bits
    low, high = value & ((unit << low_bits) - unit), value >> low_bits
    for turn in range(ROUNDS):
        half = _scramble(keys ^ _scramble(low + np.uint64(turn << 48)))
        # The halves are swapped in each round, with their widths; after an even number
        # of rounds each has its first width again.
        low, high = high ^ (half & ((unit << high_bits) - unit)), low
        low_bits, high_bits = high_bits, low_bits
    return (high << low_bits) | low


def file_shares(sizes: Sequence[int], temperature: float) -> np.ndarray:
    """Return each file's share of the draws, proportional to size^(1 / temperature).

    Args:
        sizes: Rows of each file, each at least 1.
        temperature: Infinity gives equal shares, 1 shares proportional to the sizes.

    Returns:
        float64 `(files,)`, sum 1.
    """
    at_least(1, temperature=temperature)
    weights = (np.asarray(sizes) / np.max(sizes)) ** (1 / temperature)
    return weights / weights.sum()


def quotas(shares: np.ndarray, total: int) -> np.ndarray:
    """Divide `total` by shares into integers, by largest remainder; int64."""
    exact = shares * total
    whole = np.floor(exact).astype(np.int64)
    missing = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole


class EpochOrder:
    """The rows that are drawn in each epoch.

    In every epoch, each file has exactly its quota of draws. Over the epochs, the rows
    of a file are drawn in laps: each lap draws all rows, in another order, before the
    next lap begins.

    Args:
        sizes: Number of rows of each file, in the order of the table.
        seed: Selects all permutations.
        temperature: See `file_shares`.
        weights: Factors of the files' shares.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        seed: int = 0,
        temperature: float = float("inf"),
        weights: Sequence[float] | None = None,
    ) -> None:
        self.sizes = np.asarray(sizes, np.int64)
        self.seed = seed
        self.total = int(self.sizes.sum())
        shares = file_shares(sizes, temperature)
        if weights is not None:
            shares = shares * weights / np.dot(shares, weights)
        self.quotas = quotas(shares, self.total)
        self._first_row = np.cumsum(self.sizes) - self.sizes
        self._quota_ends = np.cumsum(self.quotas)

    def rows(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """Return the rows of draws `start` to `stop` (excluded) of an epoch, int64."""
        draws = np.arange(start, stop)
        place = permutation(draws, self.total, mix(self.seed, 1, epoch))
        file = np.searchsorted(self._quota_ends, place, side="right")
        quota, size = self.quotas[file], self.sizes[file]
        ordinal = place - (self._quota_ends[file] - quota) + epoch * quota
        lap_seed = mix(self.seed, 2, file, ordinal // size)
        return self._first_row[file] + permutation(ordinal % size, size, lap_seed)


class BatchStream:
    """The rows of the batch at any position of training; the seed decides them.

    The draws of an epoch are cut into windows. The pairs of a window are sorted by
    length or bucket and cut into batches, and the batches are shuffled. So a batch has
    little padding, and batches come in random order.

    Args:
        table: Provides the lengths.
        batch_size: Number of pairs in a batch.
        seed: Decides the order.
        temperature: See `file_shares`.
        multiple: Padded lengths are multiples of this.
        weights: Factors of the files' shares of the draws, by name of the file; 1 by
            default.
        buckets: Maximum number of shapes, see `PairBatches`; None for no limit.

    Raises:
        InputError: A number is out of range, there are fewer pairs than a batch needs,
            or `weights` names a file that does not exist.
    """

    def __init__(
        self,
        table: Any,
        batch_size: int = 64,
        seed: int = 0,
        temperature: float = float("inf"),
        multiple: int = 1,
        weights: Mapping[str, float] | None = None,
        buckets: int | None = None,
    ) -> None:
        at_least(1, batch_size=batch_size, multiple=multiple, buckets=buckets)
        sizes = [file.stop - file.start for file in table.files]
        factors = None if weights is None else _factors(table.files, weights)
        self.order = EpochOrder(sizes, seed, temperature, factors)
        self.table, self.seed, self.multiple = table, seed, multiple
        self.batch_size = batch_size
        self.draws = len(table) - len(table) % batch_size
        if self.draws == 0:
            raise InputError(
                "`batch_size` must be at most the number of pairs. Received: "
                f"batch_size={batch_size}, {len(table)} pairs. Choose a smaller one."
            )
        self.window = max(WINDOW_BATCHES, WINDOW_PAIRS // batch_size)  # batches
        # Two windows, because threads read on both sides of a border.
        self._window = lru_cache(maxsize=2)(self._cut_window)
        self.buckets = None if buckets is None else self._choose_buckets(buckets)

    def _lengths(self, rows: np.ndarray) -> list[np.ndarray]:
        return [self.table.lengths(side, rows) for side in SIDES]

    def _choose_buckets(self, most: int) -> list[tuple[int, int]]:
        """Return the shapes with the least padding for a sample of the draws."""
        drawn = self._lengths(self.order.rows(0, 0, min(self.draws, SAMPLED)))
        for start in range(0, len(self.table), PART):  # the shapes must hold all rows
            rows = np.arange(start, min(start + PART, len(self.table)))
            longest = self.table.longest(rows)
            drawn = [np.append(*both) for both in zip(drawn, longest, strict=True)]
        return least_padding(drawn, most, self.table.max_length, self.multiple)

    def steps(self, epochs: int) -> int:
        """Return the number of batches in `epochs` epochs."""
        return epochs * (self.draws // self.batch_size)

    def rows(self, position: int) -> np.ndarray:
        """Return the rows of the batch at a position, int64 `(n,)`."""
        epoch, index = divmod(position, self.steps(1))
        window, index = divmod(index, self.window)
        return self._window(epoch, window)[index]

    def _cut_window(self, epoch: int, window: int) -> list[np.ndarray]:
        pairs = self.window * self.batch_size
        start = window * pairs
        rows = self.order.rows(epoch, start, min(start + pairs, self.draws))
        lengths = self._lengths(rows)
        if self.buckets is None:
            source, target = (-(-it // self.multiple) for it in lengths)
            # Ascending and descending in turns, so that target lengths do not jump in a
            # batch with two source lengths.
            order = np.lexsort((np.where(source % 2, target, -target), source))
        else:
            edges = np.transpose(self.buckets)
            bucket = np.maximum(*map(np.searchsorted, edges, lengths))
            order = np.argsort(bucket, kind="stable")
        batches = rows[order].reshape(-1, self.batch_size)
        count = len(batches)
        seed = mix(self.seed, 3, epoch, window)
        return [batches[i] for i in permutation(np.arange(count), count, seed)]


def least_padding(
    lengths: Any, most: int, limit: int, multiple: int = 1
) -> list[tuple[int, int]]:
    """Return at most `most` shapes that hold all pairs of texts with the least padding.

    A shape is a source length and a target length. In the list of shapes, neither
    length decreases, and a pair is padded to the first shape that holds it. Dynamic
    programming finds the best of all such lists over quantiles of the lengths.

    Args:
        lengths: Numbers of tokens of the source texts and the target texts, `(2, n)`.
        most: Maximum number of shapes.
        limit: Maximum number of tokens of any text.
        multiple: Lengths are multiples of this.

    Example:
        >>> from keras_msd.data.order import least_padding
        >>> least_padding([[4, 4, 4, 20, 21], [5, 6, 6, 24, 22]], most=2, limit=64)
        [(4, 6), (21, 24)]
    """
    places = np.linspace(0, 1, CANDIDATES + 1)
    quantiles = [np.quantile(it, places, method="higher") for it in lengths]
    grid = [
        sorted({padded_length(int(it), limit, multiple) for it in side})
        for side in quantiles
    ]
    counts = np.zeros([len(side) for side in grid])
    np.add.at(counts, tuple(map(np.searchsorted, grid, lengths)), 1)
    held = counts.cumsum(0).cumsum(1).ravel()  # pairs that fit into each shape
    one, other = (it.ravel() for it in np.meshgrid(*grid, indexing="ij"))
    # The cost of the second shape if it comes after the first.
    after = (one[:, None] <= one) & (other[:, None] <= other)
    added = np.where(after, (one + other) * (held - held[:, None]), np.inf)
    cost, previous = (one + other) * held, []
    for _ in range(min(most, sum(counts.shape)) - 1):  # at most the steps on the grid
        total = cost[:, None] + added
        previous.append(total.argmin(axis=0))
        cost = total.min(axis=0)
    chosen = [len(held) - 1]
    for places in reversed(previous):
        chosen.append(places[chosen[-1]])
    return sorted({(int(one[place]), int(other[place])) for place in chosen})


def _factors(files: Sequence[Any], weights: Mapping[str, float]) -> list[float]:
    """Return the weight of each file."""
    names = [file.name for file in files]
    for name, weight in weights.items():
        if name not in names or not 0 < weight < float("inf"):
            raise InputError(
                "`weights` must have a number above 0 for the name of a file. Received:"
                f" {name!r}: {weight!r}; the files are {', '.join(names)}."
            )
    return [weights.get(name, 1.0) for name in names]
