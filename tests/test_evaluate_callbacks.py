"""Development scores during training; under JAX: test_jax.py."""

import keras
import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.evaluate import mse, retrieval, sts
from keras_msd.evaluate.callbacks import ScoreCallback

pytestmark = pytest.mark.usefixtures("no_graphs")

TEXTS = [f"text {i}" for i in range(24)]
PAIRS = list(zip(TEXTS[:12], TEXTS[12:], strict=True))
ROWS = [(float(i % 5), one, two) for i, (one, two) in enumerate(PAIRS)]
NAMES = {"dev_mse", "dev_negative_mse", "de_precision", "sts_spearman"}
NAMES |= {"de_source_to_target", "de_target_to_source"}


def by_error(encoder, vectors, texts, **options):
    return ScoreCallback(encoder, lambda one: mse(one, vectors, texts), **options)


def by_rank(encoder, **options):
    return ScoreCallback(encoder, lambda one: sts(one, ROWS), **options)


class Linear:
    """A matrix as an encoder: each text has features that never change."""

    def __init__(self):
        draw = np.random.default_rng(5)
        features = draw.normal(size=(24, 6))
        features[12:] = features[:12] + 0.5 * draw.normal(size=(12, 6))
        self.features = dict(zip(TEXTS, features.astype("float32"), strict=True))
        dense = keras.layers.Dense(4, use_bias=False)
        self.model = keras.Sequential([keras.Input((6,)), dense])
        self.model.set_weights([draw.normal(size=(6, 4))])
        self.goals = self.rows(TEXTS) @ draw.normal(size=(6, 4)).astype("float32")

    def rows(self, texts):
        return np.stack([self.features[text] for text in texts])

    def encode(self, texts):
        return self.model.predict_on_batch(self.rows(texts))

    def fit(self, callbacks, epochs=3, rate=0.3):
        self.model.compile(keras.optimizers.SGD(rate), "mse")
        options = {"epochs": epochs, "batch_size": 6, "shuffle": False, "verbose": 0}
        inputs = self.rows(TEXTS), self.goals
        return self.model.fit(*inputs, callbacks=callbacks, **options)


class Scripted(ScoreCallback):
    """Says how good the weights are from a list; keeps a copy of each."""

    def __init__(self, encoder, values, **options):
        self.seen, values = [], iter(values)

        def score(one):
            self.seen.append(one.model.get_weights()[0].copy())
            return {"good": float(next(values)), "pairs": 1, "primary": "good"}

        super().__init__(encoder, score, **options)


def run():
    """Train with every callback; return what they and the history say."""
    encoder = Linear()
    guides = encoder.goals[12:]
    callbacks = [
        by_error(encoder, guides, TEXTS[12:], every=3, best_weights=True),
        ScoreCallback(encoder, lambda one: retrieval(one, PAIRS), name="de"),
        by_rank(encoder, name="sts"),
    ]
    before = mse(encoder, guides, TEXTS[12:])["mse"]
    history = encoder.fit(callbacks).history
    scripted = Scripted(encoder, [1, 5, 2, 5], best_weights=True)
    encoder.fit([scripted])
    kept = np.array_equal(encoder.model.get_weights()[0], scripted.seen[1])
    moved = len({one.tobytes() for one in scripted.seen})
    records = [one.record for one in callbacks]
    value = {"history": history, "records": records, "before": before}
    value |= {"kept": kept, "moved": moved, "best": callbacks[0].best_step}
    return value


def check(value):
    history, (errors, found, ranks) = value["history"], value["records"]
    assert {"loss"} | NAMES == set(history)
    assert [one["step"] for one in errors] == [0, 3, 4, 6, 8, 9, 12]
    assert [one["step"] for one in found] == [one["step"] for one in ranks] == [
        0, 4, 8, 12,
    ]  # fmt: skip
    assert errors[0]["dev_mse"] == pytest.approx(value["before"])
    at_ends = [one["dev_mse"] for one in errors if one["step"] in (4, 8, 12)]
    assert history["dev_mse"] == at_ends and at_ends[-1] < 0.5 * value["before"]
    assert history["sts_spearman"] == [one["sts_spearman"] for one in ranks[1:]]
    lowest = min(errors, key=lambda one: one["dev_mse"])
    assert value["best"] == lowest["step"]
    assert value["moved"] == 4 and value["kept"]


def test_scores_in_the_logs_and_best_weights():
    check(run())


def test_weights_before_training_may_be_the_best():
    encoder = Linear()
    before = encoder.model.get_weights()[0].copy()
    scripted = Scripted(encoder, [7, 7, 3], best_weights=True)
    encoder.fit([scripted], epochs=2)
    assert np.array_equal(encoder.model.get_weights()[0], before)
    assert scripted.best == 7 and not np.array_equal(scripted.seen[2], before)


def test_patience_counts_looks_since_the_best():
    encoder = Linear()  # four updates an epoch
    options = {"every": 1, "patience": 2, "best_weights": True}
    scripted = Scripted(encoder, [1, 0, 2, 2, 1, 9], **options)
    encoder.fit([scripted], epochs=9)
    assert [one["dev_good"] for one in scripted.record] == [1, 0, 2, 2, 1]
    assert np.array_equal(encoder.model.get_weights()[0], scripted.seen[2])


def test_unfit_data_is_refused_before_training():
    encoder = Linear()
    before = encoder.model.get_weights()[0].copy()
    with pytest.raises(InputError, match=r"teacher \(11, 4\), encoder \(12, 4\)"):
        encoder.fit([by_error(encoder, encoder.goals[:11], TEXTS[:12])])
    assert np.array_equal(encoder.model.get_weights()[0], before)
    with pytest.raises(InputError, match="`every` must be at least 1"):
        by_rank(encoder, every=0)
    with pytest.raises(InputError, match="`patience` must be at least 1"):
        by_rank(encoder, patience=0)


def test_best_weights_are_back_after_divergence():
    encoder = Linear()
    before = encoder.model.get_weights()[0]
    callback = by_error(encoder, encoder.goals, TEXTS, best_weights=True)
    with pytest.raises(InputError, match="NaN|finite"), np.errstate(all="ignore"):
        encoder.fit([callback], rate=1e30)
    assert np.array_equal(encoder.model.get_weights()[0], before)


@pytest.mark.parametrize("value", [np.float32(0.5), 1, np.int64(3)])
def test_a_primary_score_may_be_any_number(value):
    encoder = Linear()
    callback = ScoreCallback(encoder, lambda one: {"good": value, "primary": "good"})
    encoder.fit([callback])
    assert callback.best == float(value) and callback.best_step == 0


@pytest.mark.parametrize(
    "scores", [{"good": 1.0}, {"primary": "good"}, {"primary": "b", "b": "x"}]
)
def test_scores_without_a_primary_one(scores):
    encoder = Linear()
    with pytest.raises(InputError, match="under `primary`"):
        encoder.fit([ScoreCallback(encoder, lambda one: scores)])
