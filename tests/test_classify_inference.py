"""Classification of inference: loss, stage, batches, a training that was stopped."""

import keras
import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.data.scored import InferenceBatches
from keras_msd.losses import SoftmaxClassification
from keras_msd.stages import ClassifyInference
from keras_msd.testing import run_loss_test, run_stage_test, tiny_encoder
from keras_msd.training.optimizer import make_optimizer
from keras_msd.training.resume import fit

FIRST = np.array([[1, 2], [0, -1], [3, 0], [0, 0]], "float32")
SECOND = np.array([[1, 0], [2, 1], [3, 0], [1, -2]], "float32")
LABELS = np.array([0, 2, 1, 2], "int32")
MATRIX = (np.arange(18).reshape(6, 3) % 5 - 2).astype("float32") / 4
ROWS = [
    (row % 3, f"a cat sees {'a dog ' * (row % 3)}", f"the cat sees it {row}")
    for row in range(23)
]


def wanted_rows(first, second, matrix, labels):
    """Compute the loss row by row, exponentials and all."""
    found = []
    for u, v, label in zip(first, second, labels, strict=True):
        weights = np.exp([*u, *v, *abs(u - v)] @ matrix.astype("float64"))
        found.append(-np.log(weights[label] / weights.sum()))
    return found


def test_loss_equals_its_formula():
    rows = wanted_rows(FIRST, SECOND, MATRIX, LABELS)
    run_loss_test(SoftmaxClassification(), LABELS, (FIRST, SECOND, MATRIX), rows)


def test_loss_takes_logits_of_any_size():
    huge = SoftmaxClassification()(LABELS, (FIRST, SECOND, 1e4 * MATRIX))
    assert np.isfinite(float(huge))


def network(**fields):
    keras.utils.set_random_seed(3)
    return tiny_encoder(dropout=0.0, **fields)


def one_batch():
    x, y = InferenceBatches(ROWS, network(), batch_size=6, multiple=16)[0]
    return x | {"group": np.arange(6, dtype="int32")}, y


def test_stage(eagerly):
    def make():
        return ClassifyInference(network(num_layers=0))

    run_stage_test(make, *one_batch(), heads=1)


def test_stage_compares_the_encoders_embeddings():
    (x, y), encoder = one_batch(), network()
    stage = ClassifyInference(encoder)
    made = stage.loss_terms(x, y, stage(x, training=False))["cross_entropy"]
    rows = InferenceBatches(ROWS, encoder, batch_size=6, multiple=16).rows(0)
    sides = [encoder.encode([ROWS[row][k] for row in rows]) for k in (1, 2)]
    matrix = np.array(stage.dense.kernel)
    assert matrix.shape == (3 * encoder.dim, 3)
    wanted = np.mean(wanted_rows(*sides, matrix, y["label"]))
    assert float(made) == pytest.approx(wanted, rel=1e-4)


def test_the_gradient_reaches_every_weight_of_the_encoder():
    (x, y), encoder = one_batch(), network()
    before = encoder.weights()
    stage = ClassifyInference(encoder)
    matrix = np.array(stage.dense.kernel)
    stage.compile(keras.optimizers.SGD(1.0), run_eagerly=True)
    stage.train_on_batch(x, y)
    assert stage.trained_encoder() is encoder
    assert encoder.weights().keys() == before.keys()  # the classifier is not in it
    still = [k for k, v in encoder.weights().items() if (v == before[k]).all()]
    assert [key for key in still if not key.endswith("key/bias")] == []  # softmax's 0
    assert (np.array(stage.dense.kernel) != matrix).any()


def test_stage_refuses_what_it_cannot_train_on():
    (x, y), stage = one_batch(), ClassifyInference(tiny_encoder())
    with pytest.raises(InputError, match="`label` must have the shape"):
        stage.compute_loss(x, {"label": y["label"][:, None]}, stage(x))
    with pytest.raises(InputError, match="`classes` must be at least 2.*classes=1"):
        ClassifyInference(tiny_encoder(), classes=1)


@pytest.mark.parametrize("label", [3, -1, 0.5, "entailment"])
def test_batches_refuse_labels_that_are_no_class(label):
    rows = [(0, "a", "b"), (label, "c", "d")]
    with pytest.raises(InputError, match=f"0 to 2. .*{label} in row 2.*read_inference"):
        InferenceBatches(rows, tiny_encoder(), batch_size=1)


def test_batches_of_two_classes():
    rows = [(0, "a", "b"), (1, "c", "d")]
    batches = InferenceBatches(rows, tiny_encoder(), classes=2, batch_size=2)
    assert sorted(batches[0][1]["label"].tolist()) == [0, 1]


class PowerCut(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            raise RuntimeError("power cut")


def train(folder, *callbacks, seed=3, minutes=0):
    """Return all variables after 4 updates."""
    keras.utils.set_random_seed(seed)
    encoder = tiny_encoder(num_layers=0, dropout=0.1)
    dataset = InferenceBatches(ROWS, encoder, batch_size=5, seed=1)
    stage = ClassifyInference(encoder)
    stage.compile(make_optimizer(1e-2, steps=4), run_eagerly=True)
    keras.utils.set_random_seed(3)
    fit(stage, dataset, folder, minutes, callbacks=callbacks, verbose=0)
    return [np.array(it) for it in (*stage.variables, *stage.optimizer.variables)]


def test_training_that_was_stopped_ends_with_the_same_classifier(tmp_path):
    whole = train(tmp_path / "whole", minutes=60)
    with pytest.raises(RuntimeError, match="power cut"):
        train(tmp_path / "checkpoints", PowerCut())
    # Of another random start: encoder, classifier and optimizer are the checkpoint's.
    again = train(tmp_path / "checkpoints", seed=99)
    for one, other in zip(whole, again, strict=True):
        np.testing.assert_array_equal(one, other)
