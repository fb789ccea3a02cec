"""A teacher's vectors in fewer numbers: one dense layer on stored vectors."""

from functools import partial

import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.starts.dimension_reduction import (
    align_reduction,
    fit_dense,
    reduce_dimensions,
    whiten,
)

WIDE, DIM, COUNT = 12, 3, 200
QUICK = {"steps": 200, "batch_size": 100, "learning_rate": 0.05, "scale": 20.0}


def stored(seed=0):
    """Return translations: equal in DIM hidden numbers, different in all others."""
    draw = np.random.default_rng(seed)
    basis = np.linalg.qr(draw.normal(size=(WIDE, WIDE)))[0]
    meaning = draw.normal(size=(COUNT, DIM))
    sides = [
        np.concatenate([meaning, 1.5 * draw.normal(size=(COUNT, WIDE - DIM))], axis=1)
        for _ in range(2)
    ]
    return [(side @ basis).astype("float32") for side in sides]


def precision(source, target):
    cosines = unit(source) @ unit(target).T
    return np.mean(cosines.argmax(axis=1) == np.arange(len(source)))


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def test_what_translations_share_is_kept():
    source, target = stored()
    matrix = reduce_dimensions(source, target, DIM, **QUICK)
    assert matrix.shape == (WIDE, DIM) and matrix.dtype == np.float32
    start = reduce_dimensions(source, target, DIM, **QUICK | {"steps": 1})
    before = precision(source @ start, target @ start)
    assert precision(source, target) < 0.2 and before < 0.2
    assert precision(source @ matrix, target @ matrix) > 0.9


@pytest.mark.usefixtures("no_graphs")
def test_the_seed_decides_and_a_memory_map_will_do(tmp_path):
    source, target = stored()
    np.save(tmp_path / "source.npy", source)
    mapped = np.load(tmp_path / "source.npy", mmap_mode="r")
    short = QUICK | {"steps": 5}
    first = reduce_dimensions(source, target, DIM, **short, seed=1)
    again = reduce_dimensions(mapped, target, DIM, **short, seed=1)
    np.testing.assert_array_equal(first, again)
    other = reduce_dimensions(source, target, DIM, **short, seed=2)
    assert np.abs(first - other).max() > 0.01


@pytest.mark.usefixtures("no_graphs")
def test_duplicate_lines_are_no_negatives():
    source = np.repeat(np.eye(4, dtype="float32"), 2, axis=0)
    group = np.repeat(np.arange(4) * 1_000, 2)
    one = {"steps": 1, "batch_size": 8, "learning_rate": 0.1}
    together = reduce_dimensions(source, source, 2, **one, group=group)
    apart = reduce_dimensions(source, source, 2, **one)
    distinct = reduce_dimensions(source[::2], source[::2], 2, **one | {"batch_size": 4})
    np.testing.assert_allclose(together, distinct, atol=1e-5)
    assert np.abs(together - apart).max() > 1e-3


def test_mistakes_are_named():
    source, target = stored()
    with pytest.raises(InputError, match=r"\(200, 12\), \(200, 11\), \(200,\)"):
        reduce_dimensions(source, target[:, 1:], DIM)
    with pytest.raises(InputError, match=r"\(200, 12\), \(5,\)"):
        reduce_dimensions(source, target, DIM, group=np.arange(5))
    with pytest.raises(InputError, match="dim=13"):
        reduce_dimensions(source, target, 13, **QUICK)
    with pytest.raises(InputError, match="batch_size=512"):
        reduce_dimensions(source, target, DIM)
    with pytest.raises(InputError, match="`dim` must be at least 1"):
        reduce_dimensions(source, target, 0, **QUICK)


def test_whitening_divides_each_direction_by_what_it_varies():
    random = np.random.default_rng(0)
    turn = np.linalg.qr(random.normal(size=(6, 6)))[0]
    vectors = random.normal(size=(4000, 6)) * [5, 3, 2, 1, 1, 0.5] @ turn + 2
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    covariance = np.cov(vectors.T)
    mean = np.trace(covariance) / 6
    matrix = whiten(7 * vectors, strength=0.5)
    inverse = np.linalg.inv(np.eye(6) + 0.5 * covariance / mean)
    np.testing.assert_allclose(matrix @ matrix, inverse, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(whiten(vectors, 0), np.eye(6), atol=1e-6)
    made = np.cov((vectors @ whiten(vectors, 1e6)).T)
    np.testing.assert_allclose(made, np.eye(6) * made[0, 0], rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize(
    ("vectors", "strength", "message"),
    [
        (np.ones((3, 2)), 0.1, "the same direction in every row"),
        (np.ones((1, 2)), 0.1, "two sentences or more"),
        (np.array([[1.0, np.nan], [0, 1]]), 0.1, "1 numbers that are not finite"),
        (np.eye(3), -0.1, "strength=-0.1"),
    ],
)
def test_what_cannot_be_whitened_is_refused(vectors, strength, message):
    with pytest.raises(InputError, match=message):
        whiten(vectors, strength)


def draws(*shapes, seed=4):
    draw = np.random.default_rng(seed)
    return [draw.normal(size=shape).astype("float32") for shape in shapes]


def rotation(seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(DIM, DIM)))[0]


def test_a_dense_layer_begins_with_least_squares():
    student, teacher = draws((COUNT, DIM), (COUNT, WIDE))
    kernel = fit_dense(student, teacher)
    wanted = np.linalg.solve(student.T @ student, student.T @ teacher)
    assert kernel.dtype == np.float32
    np.testing.assert_allclose(kernel, wanted, atol=1e-5)


def test_principal_directions_keep_most_of_the_products():
    student, *others = draws((COUNT, WIDE), *[(WIDE, DIM)] * 20)
    student = student * np.linspace(3, 0.5, WIDE, dtype="float32")
    kernel = fit_dense(student, student, DIM)
    np.testing.assert_allclose(kernel.T @ kernel, np.eye(DIM), atol=1e-6)

    def lost(matrix):
        made = student @ matrix
        return np.linalg.norm(student @ student.T - made @ made.T)

    assert lost(kernel) < min(lost(np.linalg.qr(other)[0]) for other in others)
    singular = np.linalg.svd(student @ kernel, compute_uv=False)
    wanted = np.linalg.svd(student, compute_uv=False)[:DIM]
    np.testing.assert_allclose(singular, wanted, rtol=1e-5)


def test_a_reduction_is_rotated_onto_the_student():
    teacher, matrix, noise = draws((COUNT, WIDE), (WIDE, DIM), (COUNT, DIM))
    reduced, turn = unit(teacher @ matrix), rotation(1)
    student = reduced @ turn + 0.1 * noise
    found = align_reduction(matrix, student, teacher)
    made = unit(teacher @ found)
    np.testing.assert_allclose(made @ made.T, reduced @ reduced.T, atol=1e-5)
    np.testing.assert_allclose(found, matrix @ turn, atol=0.1)
    error = np.sum((made - student) ** 2)
    assert all(error < np.sum((made @ rotation(s) - student) ** 2) for s in range(9))


def test_vectors_of_other_sentences_are_refused():
    student, teacher, matrix = draws((8, DIM), (7, WIDE), (WIDE, DIM))
    broken = np.full((7, DIM), np.nan, "float32")
    for fit in (fit_dense, partial(align_reduction, matrix)):
        with pytest.raises(InputError, match=r"same sentences.*\(8, 3\) and \(7, 12\)"):
            fit(student, teacher)
        with pytest.raises(InputError, match="must be finite"):
            fit(broken, teacher)
    with pytest.raises(InputError, match="dim=4, dimension 3"):
        fit_dense(student, student, 4)
