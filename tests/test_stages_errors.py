"""What a stage refuses, and how it says so."""

import keras
import numpy as np
import pytest
from test_stages import ROWS, batch, network

from keras_msd.checks import InputError
from keras_msd.stages import (
    AlignEmbedding,
    ContrastiveLearning,
    TeachAssistant,
    TeachStudent,
)


def test_a_missing_target_is_an_error_at_the_first_batch():
    x, y = batch()
    stage = TeachStudent(network())
    stage.compile("sgd")
    message = "(?s)`assistant_source`.*Received: teacher.*assistant_source.: .store"
    with pytest.raises(InputError, match=message):
        stage.fit(x, {"teacher": y["teacher"]}, verbose=0)


def test_mistakes_are_named():
    model, (x, y) = network(), batch()
    stage = TeachAssistant(model)
    with pytest.raises(InputError, match="Did you mean `source_mse`"):
        TeachAssistant(model, sorce_mse=2)
    with pytest.raises(InputError, match=r"`teacher`.*, 6\). Received: .*, 5\)"):
        stage.compute_loss(x, {"teacher": y["teacher"][:, :5]}, stage(x))
    with pytest.raises(InputError, match="sample weights"):
        stage.compute_loss(x, y, stage(x), np.ones(ROWS))
    with pytest.raises(InputError, match="must contain `target_token_ids`"):
        stage({name: x[name] for name in ("source_token_ids", "source_padding_mask")})
    with pytest.raises(InputError, match="layer named `embedding`"):
        AlignEmbedding(keras.Model(model.input, list(model.input.values())))


def test_a_stage_without_an_optimizer_is_evaluated():
    x, y = batch()
    stage = TeachAssistant(network())
    stage.compile(optimizer=None, run_eagerly=True)
    assert stage.evaluate(x, {"teacher": y["teacher"]}, verbose=0)[0] > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model: TeachAssistant(model, source_mse=-1), "source_mse=-1"),
        (lambda model: TeachAssistant(model, source_mse=np.nan), "source_mse=nan"),
        (lambda model: ContrastiveLearning(model, kd_weight=np.nan), "kd_weight=nan"),
        (lambda model: ContrastiveLearning(model, kd_weight=np.inf), "inf"),
        (lambda model: ContrastiveLearning(model, contrastive="soft"), "'default'"),
        (
            lambda model: ContrastiveLearning(model, "sft", contrastive=None),
            "Did you mean `soft`",
        ),
        (lambda model: TeachAssistant(keras.Sequential()), "Received: Sequential"),
        (lambda model: TeachAssistant(len), "teachers cannot be trained"),
    ],
)
def test_an_argument_that_cannot_train_is_refused_at_once(make, message):
    with pytest.raises(InputError, match=message):
        make(network())


def test_a_stage_is_not_saved_but_its_weights_are(tmp_path):
    x, y = batch()
    stage = TeachAssistant(network())
    stage.compile("sgd", run_eagerly=True)

    def fit(path, **options):
        keep = keras.callbacks.ModelCheckpoint(tmp_path / path, **options)
        stage.fit(x, y, batch_size=ROWS, verbose=0, callbacks=[keep])

    with pytest.raises(InputError, match="save_weights_only=True"):
        fit("best.keras")
    fit("best.weights.h5", save_weights_only=True)
    assert [path.name for path in tmp_path.iterdir()] == ["best.weights.h5"]
