import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.data.order import EpochOrder, file_shares, permutation, quotas


@pytest.mark.parametrize("size", [*range(1, 40), 255, 256, 257, 5000])
def test_each_number_once(size):
    for seed in range(3):
        found = permutation(np.arange(size), size, seed)
        assert sorted(found.tolist()) == list(range(size))


def test_mixed_sizes_and_seeds():
    sizes, seeds = np.array([3, 1000, 1, 17]), np.array([5, 6, 7, 8], np.uint64)
    index = np.array([2, 999, 0, 11])
    single = [
        int(permutation(np.array([i]), int(n), s)[0])
        for i, n, s in zip(index, sizes, seeds, strict=True)
    ]
    assert permutation(index, sizes, seeds).tolist() == single


def test_looks_random():
    size, seeds = 20, 300
    counts = np.zeros((size, size))
    for seed in range(seeds):
        counts[np.arange(size), permutation(np.arange(size), size, seed)] += 1
    expected = seeds / size
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    freedom = (size - 1) ** 2
    assert abs(chi_squared - freedom) < 6 * np.sqrt(2 * freedom)
    large = permutation(np.arange(20_000), 20_000, 0)
    assert abs(np.corrcoef(np.arange(20_000), large)[0, 1]) < 0.03
    assert abs(np.corrcoef(large[:-1], large[1:])[0, 1]) < 0.03
    assert (large == permutation(np.arange(20_000), 20_000, 1)).sum() < 12


def test_shares():
    assert file_shares([10, 1000], float("inf")).tolist() == [0.5, 0.5]
    np.testing.assert_allclose(file_shares([10, 1000], 1), [10 / 1010, 1000 / 1010])
    np.testing.assert_allclose(file_shares([10, 1000], 2), [1 / 11, 10 / 11])
    with pytest.raises(InputError, match="temperature"):
        file_shares([1], 0.5)


def test_quotas_by_largest_remainder():
    assert quotas(np.array([0.5, 0.3, 0.2]), 9).tolist() == [4, 3, 2]
    assert quotas(np.array([1 / 3] * 3), 100).tolist() == [34, 33, 33]


def test_by_size_every_row_once_in_an_epoch():
    order = EpochOrder([3, 50, 700], seed=4, temperature=1)
    for epoch in range(3):
        rows = order.rows(epoch, 0, 753)
        assert sorted(rows.tolist()) == list(range(753))
    assert order.rows(0, 0, 753).tolist() != order.rows(1, 0, 753).tolist()


def test_uniform_over_files():
    sizes = [3, 50, 700]
    order = EpochOrder(sizes, seed=4)
    counts = np.zeros(753, int)
    for epoch in range(5):
        rows = order.rows(epoch, 0, 753)
        files = np.searchsorted([3, 53, 753], rows, side="right")
        assert np.bincount(files).tolist() == [251, 251, 251], "a third of the draws"
        counts += np.bincount(rows, minlength=753)
        for start, stop in ((0, 3), (3, 53), (53, 753)):
            own = counts[start:stop]
            assert own.max() - own.min() <= 1, "no row again before all others"
