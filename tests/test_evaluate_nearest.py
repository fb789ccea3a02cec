"""The nearest vectors against sorting, and the search for sentences."""

import tracemalloc

import numpy as np
import pytest
from table_encoder import Table

import keras_msd
from keras_msd.checks import InputError
from keras_msd.evaluate import Match, nearest, neighbours
from keras_msd.evaluate.nearest import top_k


@pytest.fixture
def small_blocks(monkeypatch):
    """Make every loop go round: blocks, parts of the queries, exact cosines."""
    monkeypatch.setattr(nearest, "BLOCK", 16)
    monkeypatch.setattr(nearest, "QUERIES", 5)
    monkeypatch.setattr(nearest, "RESCORED", 40)


def brute_force(queries, candidates, k):
    """Sort all cosines of each query: falling, then by row."""
    units = []
    for vectors in (np.asarray(queries, float), np.asarray(candidates, float)):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        units.append(vectors / np.where(lengths, lengths, 1))
    cosines = (units[0] @ units[1].T).round(10)
    rows = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(cosines, rows, axis=1), rows


def same(found, expected):
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[0], expected[0], atol=2e-10)
    assert found[0].dtype == np.float64 and found[1].dtype == np.int64


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 4, 23, 500])
def test_drawn_vectors(small_blocks, dtype, k):
    draw = np.random.default_rng(k)
    queries = draw.normal(size=(13, 8)).astype(dtype)
    candidates = (5 * draw.normal(size=(101, 8))).astype(dtype)
    found = top_k(queries, candidates, k)
    assert found[0].shape == (13, min(k, 101))
    same(found, brute_force(queries, candidates, k))


@pytest.mark.parametrize("k", [1, 3, 10, 40])
def test_ties_go_to_the_lower_row(small_blocks, k):
    # Few whole-numbered directions of several lengths: hundreds of exact ties, also
    # across blocks.
    draw = np.random.default_rng(k)
    queries = draw.integers(-1, 2, (9, 3))
    queries[4] = 0
    candidates = draw.integers(-1, 2, (120, 3)) * draw.integers(1, 9, (120, 1))
    cosines, rows = brute_force(queries, candidates, 120)
    assert (np.diff(cosines) == 0).sum() > 500
    found = top_k(queries.astype(np.float32), candidates.astype(np.float32), k)
    same(found, (cosines[:, :k], rows[:, :k]))
    np.testing.assert_array_equal(found[1][4], np.arange(k))


def test_nearly_equal_candidates_are_told_apart():
    # They differ by 5e-10, less than float32 can tell: exact cosines find the order.
    draw = np.random.default_rng(1)
    queries, angles, candidates = [], [], []
    for _ in range(4):
        query, *others = draw.normal(size=(101, 768))
        query /= np.linalg.norm(query)
        others -= np.outer(others @ query, query)
        others /= np.linalg.norm(others, axis=1, keepdims=True)
        angle = 0.5 + 1e-9 * draw.permutation(100)
        candidates.append(
            np.outer(np.cos(angle), query) + np.sin(angle)[:, None] * others
        )
        queries.append(query)
        angles.append(angle)
    _, rows = top_k(np.array(queries), np.concatenate(candidates), 5)
    expected = np.argsort(angles, axis=1)[:, :5] + np.arange(0, 400, 100)[:, None]
    np.testing.assert_array_equal(rows, expected)


def test_blocks_of_a_stream_change_nothing(small_blocks):
    draw = np.random.default_rng(2)
    queries, candidates = draw.normal(size=(7, 6)), draw.normal(size=(90, 6))
    whole = top_k(queries, candidates, 4)
    for cuts in ([], [1, 2, 3], [0, 40, 40, 41], list(range(90))):
        blocks = iter(np.split(candidates, cuts))
        found = top_k(queries, blocks, 4)
        np.testing.assert_array_equal(found[0], whole[0])
        np.testing.assert_array_equal(found[1], whole[1])


def test_a_large_k_takes_no_memory():
    vectors = np.eye(3)
    for candidates in (vectors, vectors[:0]):
        found = top_k(vectors, candidates, 10**15)
        assert found[1].shape == (3, len(candidates))


def test_memory_does_not_grow_with_the_candidates():
    draw = np.random.default_rng(3)
    queries = draw.normal(size=(100, 16)).astype(np.float32)
    block = draw.normal(size=(2000, 16)).astype(np.float32)
    peaks = []
    for count in (2, 10):
        tracemalloc.start()
        _, rows = top_k(queries, (block for _ in range(count)), 3)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        np.testing.assert_array_equal(rows[:, 1], rows[:, 0] + 2000)  # its first copy
    assert peaks[1] < 1.05 * peaks[0]
    assert peaks[0] < 40e6


PLANE = {"north": [0, 3], "north again": [0, 1], "north-east": [1, 1], "Nord": [0, 2]}
PLANE |= {"east": [2, 0], "south": [0, -1], "Ost": [1, 0]}
PLACES = ["south", "east", "north again", "north-east", "north"]


def test_nearest_first_ties_in_the_given_order():
    found = keras_msd.search(Table(PLANE), "Nord", PLACES, top=3)
    assert found == [
        Match(1.0, 2, "north again"),
        Match(1.0, 4, "north"),
        Match(round(1 / np.sqrt(2), 6), 3, "north-east"),
    ]


def test_neighbours_are_what_a_report_shows_and_nothing_is_encoded_twice():
    plane = Table(PLANE)
    queries = [("Nord", "de"), ("Ost", "de")]
    found = neighbours(plane, queries, [*PLACES, "north", "east"], top=2)
    wanted = [
        [("north again", 1.0), ("north", 1.0)],
        [("east", 1.0), ("north-east", 0.7071)],
    ]
    for one, (query, code), near in zip(found, queries, wanted, strict=True):
        named = [{"sentence": text, "cosine": cosine} for text, cosine in near]
        assert one == {"query": query, "language": code, "neighbours": named}
    assert len(plane.seen) == len(set(plane.seen)) == 7


def test_bad_requests():
    with pytest.raises(InputError, match="`top` must be at least 1"):
        keras_msd.search(Table(PLANE), "Nord", PLACES, top=0)
    with pytest.raises(InputError, match="`sentences` must be at least 1"):
        keras_msd.search(Table(PLANE), "Nord", [])
    with pytest.raises(InputError, match="`query` must hold strings"):
        keras_msd.search(Table(PLANE), ["Nord", None], PLACES)
    with pytest.raises(InputError, match="must be a list of sentences"):
        keras_msd.search(Table(PLANE), "Nord", "north")
