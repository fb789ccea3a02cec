"""The losses of thin, deep students against their formulas, on vectors made by hand."""

import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.losses.distances import FeatureDistillation
from keras_msd.losses.similarities import AdditiveMarginSoftmax, LogitDistillation
from keras_msd.testing import run_loss_test

# Rows 0 and 2 are the same English line.
GROUP = np.array([0, 1, 0, 3], "int32")
SOURCE = np.array([[3, 0, 1], [0, 1, 1], [2, 1, 0], [-1, 0, 1]], "float32")
TARGET = np.array([[1, 1, 0], [0, 3, 1], [1, 0, 2], [0, 2, -1]], "float32")
GOALS = (
    np.array([[1, 0], [0, 2], [1, 0], [1, 1]], "float32"),
    np.array([[2, 1], [0, 1], [1, 1], [-1, 1]], "float32"),
)
ROWS = range(4)


def cosine(a, b):
    a, b = a.astype("float64"), b.astype("float64")
    return a @ b / np.sqrt((a @ a) * (b @ b))


S = [[cosine(SOURCE[i], TARGET[j]) for j in ROWS] for i in ROWS]


def ranking(i, margin, scale, others, cosines):
    """Return equation 2 for one row and one direction, scaled."""
    right = np.exp(scale * (cosines(i, i) - margin))
    wrong = sum(np.exp(scale * cosines(i, n)) for n in others)
    return -np.log(right / (right + wrong))


def both_directions(margin, scale, group):
    rows = []
    for i in ROWS:
        others = [n for n in ROWS if n != i and group[n] != group[i]]
        there = ranking(i, margin, scale, others, lambda i, n: S[i][n])
        back = ranking(i, margin, scale, others, lambda i, n: S[n][i])
        rows.append(there + back)
    return rows


@pytest.mark.parametrize(
    ("options", "margin", "scale"),
    [
        ({}, 0.3, 100),
        ({"scale": 1.0}, 0.3, 1),
        ({"margin": 0.0, "scale": 20.0}, 0, 20),
        ({"margin": 0.5, "scale": 5.0}, 0.5, 5),
    ],
)
def test_additive_margin_softmax_equals_its_formula(options, margin, scale):
    loss = AdditiveMarginSoftmax(**options)
    pair = (SOURCE, TARGET)
    apart, masked = np.arange(4), GROUP
    rows = both_directions(margin, scale, apart)
    run_loss_test(loss, GOALS[0], pair, rows)
    run_loss_test(loss, (GOALS[0], apart), pair, rows)
    run_loss_test(
        loss, (GOALS[0], masked), pair, both_directions(margin, scale, masked)
    )
    alone = loss(masked, pair)
    assert float(alone) == pytest.approx(float(loss((GOALS[0], masked), pair)))
    assert abs(float(alone) - float(loss(apart, pair))) > 1e-3


def test_unscaled_perfect_vectors_keep_a_loss():
    perfect = np.eye(64, dtype="float32")
    literal = AdditiveMarginSoftmax(scale=1.0)(np.arange(64), (perfect, perfect))
    assert float(literal) / 2 == pytest.approx(3.47, abs=0.005)
    scaled = AdditiveMarginSoftmax()(np.arange(64), (perfect, perfect))
    assert float(scaled) < 1e-6


def test_the_margin_must_be_won_in_both_directions():
    near = np.array([[1, 0], [np.cos(0.6), np.sin(0.6)]], "float32")
    rows = AdditiveMarginSoftmax().call(np.arange(2), (near, near))
    wrong = 100 * (np.cos(0.6) - 0.7)  # above 0: nearer than the margin allows
    wanted = 2 * np.log1p(np.exp(wrong))
    np.testing.assert_allclose(rows, [wanted, wanted], rtol=1e-4)


def test_a_duplicate_line_moves_nothing():
    import tensorflow as tf

    target = tf.Variable(TARGET)
    with tf.GradientTape() as tape:
        made = AdditiveMarginSoftmax(scale=2.0).call(
            tf.constant(GROUP), (tf.constant(SOURCE), target)
        )[0]
    moved = np.abs(np.array(tape.gradient(made, target))).max(axis=1)
    assert moved[2] == 0 and moved[0] > 0 and moved[1] > 0


@pytest.mark.parametrize("dims", ["mean", "sum"])
def test_feature_distillation_equals_its_formula(dims):
    made = (SOURCE[:, :2], TARGET[:, 1:])
    rows = [
        sum(
            sum((side[i][k] - goal[i][k]) ** 2 for k in range(2))
            for side, goal in zip(made, GOALS, strict=True)
        )
        for i in ROWS
    ]
    assert rows[0] == (3 - 1) ** 2 + 0 + (1 - 2) ** 2 + (0 - 1) ** 2
    if dims == "mean":
        rows = [row / 2 for row in rows]
    run_loss_test(FeatureDistillation(dims), GOALS, made, rows)


@pytest.mark.parametrize(
    ("options", "factor"),
    [({}, 1), ({"scale": 1.0}, 1e-2), ({"temperature": 10.0}, 10)],
)
def test_logit_distillation_equals_its_formula(options, factor):
    rows = [
        sum((factor * (cosine(GOALS[0][i], GOALS[1][j]) - S[i][j])) ** 2 for j in ROWS)
        / 4
        for i in ROWS
    ]
    run_loss_test(LogitDistillation(**options), GOALS, (SOURCE, TARGET), rows)


def test_logit_distillation_needs_the_teacher_in_both_languages():
    right = float(LogitDistillation()(GOALS, (SOURCE, TARGET)))
    english = float(LogitDistillation()((GOALS[0], GOALS[0]), (SOURCE, TARGET)))
    assert abs(right - english) > 1e-3


@pytest.mark.parametrize(
    "loss", [AdditiveMarginSoftmax(), LogitDistillation(), FeatureDistillation("sum")]
)
def test_zero_vectors_have_finite_gradients(loss):
    import tensorflow as tf

    source = tf.Variable(np.zeros((4, 2), "float32"))
    with tf.GradientTape() as tape:
        value = loss(GOALS, (source, tf.constant(TARGET[:, :2])))
    assert np.isfinite(value) and np.isfinite(tape.gradient(value, source)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: AdditiveMarginSoftmax(margin=-0.1),
            "`margin` must be at least 0. Received: margin=-0.1",
        ),
        (
            lambda: AdditiveMarginSoftmax(scale=0),
            "`scale` must be above 0. Received: scale=0",
        ),
        (lambda: AdditiveMarginSoftmax()(GROUP, SOURCE), "`y_pred` must be a pair"),
        (lambda: FeatureDistillation("max"), "`dims` must be one of"),
        (lambda: FeatureDistillation()(GOALS[0], GOALS), "`y_true` must be a pair"),
        (lambda: FeatureDistillation()(GOALS, (SOURCE, TARGET)), "y_pred .4, 3."),
        (lambda: LogitDistillation(temperature=0), "temperature=0"),
        (lambda: LogitDistillation()(GOALS[0], GOALS), "`y_true` must be a pair"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
