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
# Of a guide that reads both languages, here ours of the other side.
SIDES = (TARGET, SOURCE)
OTHERS = np.array([[0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
NEVER = -1e9  # a logit whose share is 0


def cosines(rows, columns):
    """Return the cosines of all rows with all columns, in double precision."""
    units = []
    for vectors in (rows.astype("float64"), columns.astype("float64")):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        units.append(vectors / np.maximum(norms, 1e-12))
    return units[0] @ units[1].T


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


T, S = cosines(GUIDE, GUIDE), cosines(SOURCE, TARGET)
ACROSS = cosines(*SIDES)
SAME = np.eye(4) + OTHERS


def squares(wanted):
    return ((wanted - S) ** 2).mean(axis=1)


def ce_soft(temperature):
    return -(T * log_softmax(S / temperature)).sum(axis=1)


def ce_hard(temperature):
    return -np.diag(log_softmax(np.where(OTHERS, NEVER, S / temperature)))


def softmax(temperature, goal_temperature, wanted=T):
    there, back = (
        np.exp(log_softmax(goal / goal_temperature)) * log_softmax(made / temperature)
        for goal, made in ((wanted, S), (wanted.T, S.T))
    )
    return -(there + back).sum(axis=1) / 2


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
    ("options", "guide", "rows"),
    [
        ({"target": "soft"}, GUIDE, squares(T)),
        ({"target": "soft"}, SIDES, squares(ACROSS)),
        ({"target": "bool"}, GUIDE, squares(SAME)),
        ({"target": "ce_soft"}, GUIDE, ce_soft(0.05)),
        ({"target": "ce_soft", "temperature": 0.5}, GUIDE, ce_soft(0.5)),
        ({"target": "ce_hard"}, GUIDE, ce_hard(0.05)),
        ({"target": "ce_hard", "temperature": 0.5}, GUIDE, ce_hard(0.5)),
        ({"target": "softmax"}, GUIDE, softmax(0.05, 0.05)),
        ({"target": "softmax"}, SIDES, softmax(0.05, 0.05, ACROSS)),
        ({"target": "softmax", "temperature": 0.5}, GUIDE, softmax(0.5, 0.5)),
        ({"target": "softmax", "goal_temperature": 0.2}, GUIDE, softmax(0.05, 0.2)),
    ],
)
def test_contrastive_equals_its_formula(options, guide, rows):
    loss = MultilingualContrastive(**options)
    run_loss_test(loss, (guide, GROUP), (SOURCE, TARGET), rows)


@pytest.mark.parametrize("target", ["bool", "ce_hard"])
def test_without_group_only_the_index_counts(target):
    loss = MultilingualContrastive(target)
    alone = float(loss((GUIDE, np.arange(4)), (SOURCE, TARGET)))
    assert float(loss(GUIDE, (SOURCE, TARGET))) == pytest.approx(alone, rel=1e-6)
    grouped = float(loss((GUIDE, GROUP), (SOURCE, TARGET)))
    assert abs(grouped - alone) > 1e-3


def log_shares(rows, lines, temperature):
    """Return, row by row, what a softmax gives every row of another line."""
    same = np.equal.outer(lines, lines)
    return log_softmax(np.where(same, NEVER, cosines(rows, rows) / temperature))


@pytest.mark.parametrize("guides", [(GUIDE, GUIDE), SIDES], ids=["one", "each side"])
@pytest.mark.parametrize("goal_temperature", [None, 0.2])
@pytest.mark.parametrize("across", [False, True])
def test_similarity_distribution_equals_its_formula(guides, goal_temperature, across):
    """Across sides, translations are rows of one line in a batch of both."""
    pairs, lines = zip(guides, (SOURCE, TARGET), strict=True), np.arange(4)
    if across:
        pairs = [(np.concatenate(guides), np.concatenate((SOURCE, TARGET)))]
        lines = np.tile(lines, 2)
    values = []
    for guide, side in pairs:
        goal = np.exp(log_shares(guide, lines, goal_temperature or 0.5))
        values.append(-(goal * log_shares(side, lines, 0.5)).sum(axis=1))
    wanted = np.reshape(values, (2, 4)).mean(axis=0)
    loss = SimilarityDistribution(0.5, across=across, goal_temperature=goal_temperature)
    given = guides[0] if guides[0] is guides[1] else guides
    run_loss_test(loss, given, (SOURCE, TARGET), wanted)


@pytest.mark.parametrize("dims", [(2,), (1, 2), (2, 1, 3)])
def test_matryoshka_adds_the_rows_of_every_prefix(dims):
    prefixes = [cosines(SOURCE[:, :width], TARGET[:, :width]) for width in {3, *dims}]
    wanted = sum(((SAME - found) ** 2).mean(axis=1) for found in prefixes)
    loss = Matryoshka(MultilingualContrastive("bool"), dims)
    run_loss_test(loss, (GUIDE, GROUP), (SOURCE, TARGET), wanted)


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


def ranking(margin, scale, others=False, cosines=S):
    """Return equation 2, scaled, in both directions, for each row."""
    logits = np.where(others, NEVER, scale * (cosines - margin * np.eye(len(cosines))))
    return -np.diag(log_softmax(logits)) - np.diag(log_softmax(logits.T))


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
    apart, masked = ranking(margin, scale), ranking(margin, scale, OTHERS)
    run_loss_test(loss, GOALS[0], pair, apart)
    run_loss_test(loss, (GOALS[0], np.arange(4)), pair, apart)
    run_loss_test(loss, (GOALS[0], GROUP), pair, masked)
    assert float(loss(GROUP, pair)) == pytest.approx(masked.mean(), rel=1e-5)
    assert abs(masked.mean() - apart.mean()) > 1e-3


@pytest.mark.parametrize("dims", ["mean", "sum"])
def test_feature_distillation_equals_its_formula(dims):
    made = (SOURCE[:, :2], TARGET[:, 1:])
    squared = [(side - goal) ** 2 for side, goal in zip(made, GOALS, strict=True)]
    rows = np.concatenate(squared, axis=1).sum(axis=1)
    rows = rows / 2 if dims == "mean" else rows
    run_loss_test(FeatureDistillation(dims), GOALS, made, rows)


@pytest.mark.parametrize(
    ("options", "factor"),
    [({}, 1), ({"scale": 1.0}, 1e-2), ({"temperature": 10.0}, 10)],
)
def test_logit_distillation_equals_its_formula(options, factor):
    rows = ((factor * (cosines(*GOALS) - S)) ** 2).mean(axis=1)
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
        (lambda: FeatureDistillation()(GOALS[0], GOALS), "`y_true` must be a pair"),
        (lambda: FeatureDistillation()(GOALS, (SOURCE, TARGET)), "y_pred .4, 3."),
        (lambda: LogitDistillation(temperature=0), "temperature=0"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
