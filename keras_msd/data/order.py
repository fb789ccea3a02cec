"""The order of an epoch as arithmetic: any place in it is found without a list.

An epoch has as many draws as the table has rows. Draw t of epoch e goes through a
permutation of the epoch to a file and an ordinal in that file, and from there through
a permutation of the file to a row. Nothing is kept between draws, so that the state of
the sampler is one integer and its memory does not grow with the corpus.
"""

from collections.abc import Sequence

import numpy as np

from keras_msd import checks

ROUNDS = 8  # four make a Feistel network pseudo-random; small domains need more
GOLDEN, FIRST, SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


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
    one = np.uint64(1)
    low_bits = bits // np.uint64(2)
    high_bits = bits - low_bits
    low, high = value & ((one << low_bits) - one), value >> low_bits
    for turn in range(ROUNDS):
        half = _scramble(keys ^ _scramble(low + np.uint64(turn << 48)))
        # The halves trade places, and widths, each round; after an even number of
        # rounds each has its own width again.
        low, high = high ^ (half & ((one << high_bits) - one)), low
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
    checks.at_least(1, temperature=temperature)
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
    """

    def __init__(
        self, sizes: Sequence[int], seed: int = 0, temperature: float = float("inf")
    ) -> None:
        self.sizes = np.asarray(sizes, np.int64)
        self.seed = seed
        self.total = int(self.sizes.sum())
        self.quotas = quotas(file_shares(sizes, temperature), self.total)
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
