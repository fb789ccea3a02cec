"""Training order computed by arithmetic: any position without a list.

An epoch has as many draws as the table has rows. Draw t of epoch e goes through a
permutation of the epoch to a file and an ordinal in that file, and from there through
a permutation of the file to a row. Nothing is kept between draws, so that the state of
the sampler is one integer and its memory does not grow with the corpus.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from keras_msd.arrays import padded_length
from keras_msd.checks import InputError, at_least

WINDOW_BATCHES = 64  # sorted by length together: more saves little padding
SAMPLED_WINDOWS = 32  # whose batches decide on the buckets
PART = 1 << 20  # rows of a table that are looked at together
MULTIPLE = 8  # of tokens, by default: the lengths that texts are padded to
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

    A Feistel network over the smallest power of two that holds `size`, applied again
    wherever its result is not below `size` (cycle walking): under two passes on
    average. Sizes and seeds may differ from element to element.

    Args:
        index: Integers, 0 to `size - 1`, `(n,)`.
        size: Size of the domain, at least 1, scalar or `(n,)`.
        seed: Chooses the permutation, scalar or `(n,)`.

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
        # The halves trade places, and widths, each round; after an even number of
        # rounds each has its own width again.
        low, high = high ^ (half & ((unit << high_bits) - unit)), low
        low_bits, high_bits = high_bits, low_bits
    return (high << low_bits) | low


def file_shares(sizes: Sequence[int], temperature: float) -> np.ndarray:
    """Return each file's share of the draws, proportional to size^(1 / temperature).

    Args:
        sizes: Rows of each file, each at least 1.
        temperature: Infinity gives every file the same share, 1 its own size's.

    Returns:
        float64 `(files,)`, sum 1.
    """
    at_least(1, temperature=temperature)
    weights = (np.asarray(sizes) / np.max(sizes)) ** (1 / temperature)
    return weights / weights.sum()


def quotas(shares: np.ndarray, total: int) -> np.ndarray:
    """Divide `total` by shares into whole numbers, by largest remainder; int64."""
    exact = shares * total
    whole = np.floor(exact).astype(np.int64)
    missing = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole


class EpochOrder:
    """Which row is drawn when.

    In every epoch a file is drawn by its quota, exactly. Over the epochs a file's rows
    are drawn in laps: none for the n-th time before all have been drawn n - 1 times in
    earlier quotas, each lap in another order.

    Args:
        sizes: Rows of each file; files follow one another in the table.
        seed: Chooses all permutations.
        temperature: See `file_shares`.
        weights: Of each file: its share is multiplied by it.
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
    """Batch `position` of training, for any position, from the seed alone.

    The draws of an epoch are cut into windows; a window's pairs are sorted by length
    and cut into batches, and the batches are shuffled. So a batch has little padding,
    and the windows and batches come in random order.

    Args:
        table: Gives the lengths.
        batch_size: Pairs in a batch.
        seed: Chooses the order.
        temperature: See `file_shares`.
        multiple: Padded lengths are multiples of this.
        weights: By the name of a file: a factor of its share of the draws, 1 where it
            is not named.
        buckets: Most lengths that batches are padded to, see `PairBatches`; None for
            any multiple, each side by itself.

    Raises:
        InputError: A number is out of range, there are fewer pairs than a batch needs,
            or no file has a name in `weights`.
    """

    def __init__(
        self,
        table: Any,
        batch_size: int = 64,
        seed: int = 0,
        temperature: float = float("inf"),
        multiple: int = MULTIPLE,
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
        self.window_pairs = WINDOW_BATCHES * batch_size
        self.windows = -(-self.draws // self.window_pairs)
        # Two of each: threads ask on both sides of a border.
        self._window = lru_cache(maxsize=2)(self._cut_window)
        self.buckets: list[int] | None = None
        self._shared = buckets is not None
        if buckets is not None:
            self.buckets = self._choose_buckets(buckets)

    def padded(self, rows: np.ndarray) -> tuple[int, int]:
        """Return the lengths to which both sides of a batch are padded.

        Args:
            rows: The batch's rows of the table.
        """
        longest = (
            self.table.lengths(side, rows).max() for side in ("source", "target")
        )
        return padded_sides(longest, self.table.max_length, self.multiple, self.buckets)

    def _choose_buckets(self, most: int) -> list[int]:
        """Return the lengths that pad a sample of the batches least."""
        windows = range(min(self.windows, SAMPLED_WINDOWS))
        batches = (rows for w in windows for rows in self._cut_window(0, w))
        longest = [max(self.padded(rows)) for rows in batches]
        for start in range(0, len(self.table), PART):
            rows = np.arange(start, min(start + PART, len(self.table)))
            longest.append(max(self.padded(rows)))
        return least_padding(longest, most)

    def steps(self, epochs: int) -> int:
        """Return how many batches the first `epochs` epochs have."""
        return epochs * (self.draws // self.batch_size)

    def rows(self, position: int) -> np.ndarray:
        """Return the table rows of batch `position`, int64 `(n,)`."""
        epoch, index = divmod(position, self.steps(1))
        window, index = divmod(index, WINDOW_BATCHES)
        return self._window(epoch, window)[index]

    def _cut_window(self, epoch: int, window: int) -> list[np.ndarray]:
        start = window * self.window_pairs
        rows = self.order.rows(epoch, start, min(start + self.window_pairs, self.draws))
        source, target = (
            -(-self.table.lengths(side, rows) // self.multiple) * self.multiple
            for side in ("source", "target")
        )
        if self._shared:
            source = target = np.maximum(source, target)
        # Up and down by turns, so that target lengths do not jump where the source
        # gets longer and a batch lies across the border.
        turn = np.where(source // self.multiple % 2, target, -target)
        order = np.lexsort((turn, source))
        batches = rows[order].reshape(-1, self.batch_size)
        count = len(batches)
        seed = mix(self.seed, 3, epoch, window)
        return [batches[i] for i in permutation(np.arange(count), count, seed)]


def least_padding(lengths: Sequence[int], most: int) -> list[int]:
    """Return at most `most` lengths, so that rounding up to one of them adds least.

    The choice is exact, by dynamic programming over the distinct lengths. The longest
    is always chosen.

    Args:
        lengths: One for each batch.
        most: Most lengths that are chosen.

    Example:
        >>> from keras_msd.data.order import least_padding
        >>> least_padding([8, 8, 8, 16, 24, 24], most=2)
        [8, 24]
    """
    values, counts = np.unique(lengths, return_counts=True)
    before = np.concatenate([[0], np.cumsum(counts)])
    cost = np.full(len(values) + 1, np.inf)
    cost[0] = 0
    chosen: list[list[int]] = [[] for _ in cost]  # that end at each length
    for _ in range(most):
        # The next length covers those after the last one: from `i` to `j`, i <= j.
        added = cost[:, None] + np.where(
            np.arange(len(cost))[:, None] <= np.arange(len(values)),
            values * (before[1:] - before[:, None]),
            np.inf,
        )
        start = added.argmin(axis=0)
        better = added[start, np.arange(len(values))] < cost[1:]
        chosen = [chosen[0]] + [
            [*chosen[start[j]], int(values[j])] if better[j] else chosen[j + 1]
            for j in range(len(values))
        ]
        cost[1:] = np.minimum(cost[1:], added[start, np.arange(len(values))])
    return chosen[-1]


def padded_sides(
    longest: Iterable[int], limit: int, multiple: int, buckets: Sequence[int] | None
) -> tuple[int, int]:
    """Return the lengths to which both sides of a batch are padded.

    Args:
        longest: Most tokens of a source and of a target.
        limit: Most tokens of any text.
        multiple: Of which padded lengths are multiples.
        buckets: The lengths that both sides share, rising; None if each has its own.
    """
    source, target = (padded_length(int(it), limit, multiple) for it in longest)
    if buckets is not None:
        place = int(np.searchsorted(buckets, max(source, target)))
        source = target = buckets[place]
    return source, target


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
