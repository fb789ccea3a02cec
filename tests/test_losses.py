"""Every loss against its formula in NumPy, on vectors made by hand."""

from typing import get_args

import numpy as np
import pytest

from keras_msd import losses
from keras_msd.checks import InputError
from keras_msd.choices import Target
from keras_msd.losses import (
    AdditiveMarginSoftmax,
    EmbeddingMSE,
    FeatureDistillation,
    LogitDistillation,
    Matryoshka,
    MultilingualContrastive,
    SimilarityDistribution,
    cosine_matrix,
)
from keras_msd.testing import run_loss_test

# Rows 0 and 2 are the same English line.
GUIDE = np.array([[1, 0, 0], [0, 2, 0], [1, 0, 0], [1, 1, -1]], "float32")
GROUP = np.array([0, 1, 0, 3], "int32")
SOURCE = np.array([[3, 0, 1], [0, 1, 1], [2, 1, 0], [-1, 0, 1]], "float32")
TARGET = np.array([[1, 1, 0], [0, 3, 1], [1, 0, 2], [0, 2, -1]], "float32")
ROWS = range(4)


def cosine(a, b):
    a, b = a.astype("float64"), b.astype("float64")
    return a @ b / np.sqrt((a @ a) * (b @ b))


T = [[cosine(GUIDE[i], GUIDE[j]) for j in ROWS] for i in ROWS]
S = [[cosine(SOURCE[i], TARGET[j]) for j in ROWS] for i in ROWS]
SAME = [[float(GROUP[i] == GROUP[j]) for j in ROWS] for i in ROWS]


def squares(wanted):
    return [sum((wanted[i][j] - S[i][j]) ** 2 for j in ROWS) / 4 for i in ROWS]


def log_softmax(i, j, temperature, among=ROWS):
    below = sum(np.exp(S[i][k] / temperature) for k in among)
    return S[i][j] / temperature - np.log(below)


def ce_soft(temperature):
    return [-sum(T[i][j] * log_softmax(i, j, temperature) for j in ROWS) for i in ROWS]


def ce_hard(temperature):
    others = {0: (0, 1, 3), 1: (0, 1, 2, 3), 2: (1, 2, 3), 3: (0, 1, 2, 3)}
    return [-log_softmax(i, i, temperature, others[i]) for i in ROWS]


def softmax(temperature, goal_temperature):
    def share(i, j):
        below = sum(np.exp(T[i][k] / goal_temperature) for k in ROWS)
        return np.exp(T[i][j] / goal_temperature) / below

    def backward(i, j):
        below = sum(np.exp(S[k][i] / temperature) for k in ROWS)
        return S[j][i] / temperature - np.log(below)

    return [
        -sum(
            share(i, j) * (log_softmax(i, j, temperature) + backward(i, j)) / 2
            for j in ROWS
        )
        for i in ROWS
    ]


def test_hand_computed_corner():
    assert T[0][2] == 1 and T[0][1] == 0
    assert S[0][0] == pytest.approx(3 / np.sqrt(20))
    assert S[3][2] == pytest.approx(1 / np.sqrt(10))


def test_mse_is_the_mean_over_batch_and_dims():
    goals = np.array([[1, 2, 3], [0, 0, 0]], "float32")
    made = np.array([[1, 4, 3], [3, 0, 3]], "float32")
    run_loss_test(EmbeddingMSE(), goals, made, [4 / 3, 18 / 3])
    run_loss_test(EmbeddingMSE(dims="sum"), goals, made, [4, 18])


def test_mse_over_tokens_averages_the_real_ones():
    goals = np.zeros((1, 3, 2), "float32")
    made = np.array([[[1, 1], [3, 1], [9, 9]]], "float32")
    loss = EmbeddingMSE(reduction="mean_with_sample_weight")
    mask = np.array([[1, 1, 0]])
    assert float(loss(goals, made, sample_weight=mask)) == pytest.approx((1 + 5) / 2)


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"target": "soft"}, squares(T)),
        ({"target": "bool"}, squares(SAME)),
        ({"target": "ce_soft"}, ce_soft(0.05)),
        ({"target": "ce_soft", "temperature": 0.5}, ce_soft(0.5)),
        ({"target": "ce_hard"}, ce_hard(0.05)),
        ({"target": "ce_hard", "temperature": 0.5}, ce_hard(0.5)),
        ({"target": "softmax"}, softmax(0.05, 0.05)),
        ({"target": "softmax", "temperature": 0.5}, softmax(0.5, 0.5)),
        ({"target": "softmax", "goal_temperature": 0.2}, softmax(0.05, 0.2)),
    ],
)
def test_contrastive_equals_its_formula(options, rows):
    loss = MultilingualContrastive(**options)
    run_loss_test(loss, (GUIDE, GROUP), (SOURCE, TARGET), rows)


def of_both_sides(target):
    """Return rows of a guide that reads both languages, here ours of the other side."""
    goals, found = (
        unit(one) @ unit(two).T for one, two in ((TARGET, SOURCE), (SOURCE, TARGET))
    )
    if target == "soft":
        return ((goals - found) ** 2).mean(axis=1)

    def log_shares(cosines):
        powers = np.exp(cosines / 0.05)
        return np.log(powers / powers.sum(axis=1, keepdims=True))

    there, back = (
        (np.exp(log_shares(goal)) * log_shares(cosines)).sum(axis=1)
        for goal, cosines in ((goals, found), (goals.T, found.T))
    )
    return -(there + back) / 2


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("target", ["soft", "softmax"])
def test_a_guide_of_both_languages_gives_a_vector_for_each_side(target):
    guides = ((TARGET, SOURCE), GROUP)
    loss = MultilingualContrastive(target)
    run_loss_test(loss, guides, (SOURCE, TARGET), of_both_sides(target))


@pytest.mark.parametrize("target", ["bool", "ce_hard"])
def test_without_group_only_the_index_counts(target):
    loss = MultilingualContrastive(target)
    alone = float(loss((GUIDE, np.arange(4)), (SOURCE, TARGET)))
    assert float(loss(GUIDE, (SOURCE, TARGET))) == pytest.approx(alone, rel=1e-6)
    grouped = float(loss((GUIDE, GROUP), (SOURCE, TARGET)))
    assert abs(grouped - alone) > 1e-3


@pytest.mark.parametrize(
    "loss", [MultilingualContrastive("ce_hard"), AdditiveMarginSoftmax(scale=2.0)]
)
def test_a_duplicate_line_is_never_a_negative(loss):
    import tensorflow as tf

    target = tf.Variable(TARGET)
    with tf.GradientTape() as tape:
        row = loss.call((GUIDE, tf.constant(GROUP)), (tf.constant(SOURCE), target))[0]
    moved = np.abs(np.array(tape.gradient(row, target))).max(axis=1)
    assert moved[2] == 0 and moved[0] > 0 and moved[1] > 0


def shares_of_others(rows, temperature, lines=None):
    """Return, row by row, what a softmax gives every row of another line."""
    lines = range(len(rows)) if lines is None else lines
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    shares = np.zeros((len(rows), len(rows)))
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if lines[j] != lines[i]]
        powers = np.exp([unit[i] @ unit[j] / temperature for j in others])
        shares[i, others] = powers / powers.sum()
    return shares


@pytest.mark.parametrize("temperature", [0.05, 0.5])
@pytest.mark.parametrize("guides", [GUIDE, (TARGET, SOURCE)], ids=["one", "each side"])
def test_similarity_distribution_equals_its_formula(guides, temperature):
    wanted = np.zeros(len(GUIDE))
    each = guides if isinstance(guides, tuple) else (guides, guides)
    for guide, side in zip(each, (SOURCE, TARGET), strict=True):
        goal = shares_of_others(guide.astype("float64"), temperature)
        shares = shares_of_others(side.astype("float64"), temperature)
        logs = np.log(np.where(shares > 0, shares, 1))
        wanted -= (goal * logs).sum(axis=1) / 2
    run_loss_test(SimilarityDistribution(temperature), guides, (SOURCE, TARGET), wanted)


@pytest.mark.parametrize("guides", [GUIDE, (TARGET, SOURCE)], ids=["one", "each side"])
def test_similarity_distribution_across_sides_equals_its_formula(guides):
    each = guides if isinstance(guides, tuple) else (guides, guides)
    lines = [*range(len(GUIDE))] * 2
    goal, shares = (
        shares_of_others(np.concatenate(rows).astype("float64"), temperature, lines)
        for rows, temperature in ((each, 0.2), ((SOURCE, TARGET), 0.5))
    )
    values = -(goal * np.log(np.where(shares > 0, shares, 1))).sum(axis=1)
    wanted = (values[: len(GUIDE)] + values[len(GUIDE) :]) / 2
    loss = SimilarityDistribution(0.5, across=True, goal_temperature=0.2)
    run_loss_test(loss, guides, (SOURCE, TARGET), wanted)


@pytest.mark.parametrize("dims", [(2,), (1, 2), (2, 1, 3)])
def test_matryoshka_adds_the_rows_of_every_prefix(dims):
    wanted = np.zeros(len(GUIDE))
    for width in {3, *dims}:
        sides = [rows[:, :width].astype("float64") for rows in (SOURCE, TARGET)]
        first, second = (
            rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
            for rows in sides
        )
        wanted += ((np.array(T) - first @ second.T) ** 2).mean(axis=1)
    loss = Matryoshka(MultilingualContrastive(), dims)
    run_loss_test(loss, (GUIDE, GROUP), (SOURCE, TARGET), wanted)


def test_matryoshka_keeps_the_settings_of_its_loss():
    loss = Matryoshka(MultilingualContrastive("ce_hard", 0.5), [2])
    twin = Matryoshka.from_config(loss.get_config())
    goals, sides = (GUIDE, GROUP), (SOURCE, TARGET)
    assert float(twin(goals, sides)) == float(loss(goals, sides))
    assert (twin.loss.target, twin.loss.temperature, twin.dims) == (
        "ce_hard",
        0.5,
        (2,),
    )


def test_matryoshka_knows_losses_by_name():
    named = Matryoshka("similarity_distribution", [2])(GUIDE, (SOURCE, TARGET))
    made = Matryoshka(SimilarityDistribution(), [2])(GUIDE, (SOURCE, TARGET))
    assert float(named) == float(made)


def test_cosine_ignores_length():
    tiny, huge = SOURCE * 1e-10, TARGET * 1e10
    np.testing.assert_allclose(cosine_matrix(tiny, huge), S, atol=1e-6)


def test_every_loss_of_the_table_is_public():
    for name, loss in losses.LOSSES.items():
        assert losses.loss_class(name) is loss is getattr(losses, loss.__name__)
        assert loss.__name__ in losses.__all__ and loss.__name__ in dir(losses)
    with pytest.raises(InputError, match="Did you mean `embedding_mse`"):
        losses.loss_class("embeding_mse")
    with pytest.raises(AttributeError):
        losses.EmbeddingMAE  # noqa: B018


GOALS = (
    np.array([[1, 0], [0, 2], [1, 0], [1, 1]], "float32"),
    np.array([[2, 1], [0, 1], [1, 1], [-1, 1]], "float32"),
)


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


@pytest.mark.parametrize(
    "loss",
    [
        AdditiveMarginSoftmax(),
        LogitDistillation(),
        FeatureDistillation("sum"),
        *(MultilingualContrastive(target) for target in get_args(Target)),
    ],
)
def test_zero_vectors_have_cosine_zero_and_finite_gradients(loss):
    import tensorflow as tf

    source = tf.Variable(np.zeros((4, 2), "float32"))
    assert not np.array(cosine_matrix(source, TARGET[:, :2])).any()
    goals = (GUIDE, GROUP) if isinstance(loss, MultilingualContrastive) else GOALS
    with tf.GradientTape() as tape:
        value = loss(goals, (source, tf.constant(TARGET[:, :2])))
    assert np.isfinite(value)
    gradient = np.array(tape.gradient(value, source))
    assert np.isfinite(gradient).all()
    assert gradient.any() == isinstance(loss, FeatureDistillation)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EmbeddingMSE(dims="max"), "`dims` must be one of"),
        (lambda: MultilingualContrastive("sof"), "Did you mean `soft`"),
        (lambda: MultilingualContrastive(temperature=0), "above 0"),
        (lambda: MultilingualContrastive()(GUIDE, SOURCE), "must be a pair"),
        (lambda: SimilarityDistribution(temperature=0), "above 0"),
        (lambda: SimilarityDistribution(goal_temperature=0), "above 0"),
        (lambda: SimilarityDistribution()(GUIDE, SOURCE), "must be a pair"),
        (lambda: EmbeddingMSE()(GUIDE, SOURCE[:, :1]), "same dimension"),
        (lambda: Matryoshka("similarity_distribution", []), "once.*Received: \\(\\)"),
        (lambda: Matryoshka("similarity_distribution", [2, 2]), "once"),
        (lambda: Matryoshka("similarity_distribution", [0]), "once"),
        (lambda: Matryoshka("similarity_distributio", [2]), "Did you mean"),
        (
            lambda: Matryoshka("similarity_distribution", [4])(GUIDE, (SOURCE, TARGET)),
            "dimension, 3.*Received: 4",
        ),
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
