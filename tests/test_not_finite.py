"""Training on NaN ends at once, also in a run, and no such weight is ever saved."""

import keras
import numpy as np
import pytest
from test_stages import batch, network
from tiny_data import HashGuide

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.stages import TeachAssistant


class Some(keras.utils.PyDataset):
    """Equal batches, some with a target that is not finite."""

    def __init__(self, count, bad=(), value=np.nan):
        super().__init__()
        self.count, self.bad, self.value, self.position = count, bad, value, 0

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.batch(index)

    def batch(self, index):
        x, y = batch()
        y = {name: np.array(value) for name, value in y.items()}
        if index in self.bad:
            y["teacher"][0, 0] = self.value
        return x, y


def stage_of(rate=1e-3, **options):
    keras.utils.set_random_seed(0)
    stage = TeachAssistant(network(), name="stage_1")
    stage.compile(msd.training.make_optimizer(rate, steps=9, warmup=0.0), **options)
    return stage


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_update_the_batch_and_the_terms_are_named(value):
    stage = stage_of(run_eagerly=True)
    with pytest.raises(InputError) as error:
        stage.fit(Some(5, [3], value), shuffle=False, verbose=0)
    for part in ("`stage_1`", "source_mse=", "update 4 of", "batch 3 of its stream"):
        assert part in str(error.value)
    assert "its target `teacher` is not finite" in str(error.value)


def test_a_rate_that_is_far_too_high_ends_training():
    with pytest.raises(InputError, match="update [23] of.*its targets are finite"):
        stage_of(1e38, run_eagerly=True).fit(Some(5), shuffle=False, verbose=0)


def test_of_several_updates_at_once_the_bad_batch_is_named():
    stage = stage_of(steps_per_execution=4)
    with pytest.raises(InputError, match="update 8 of.*batch 5 of.*`teacher` is not"):
        stage.fit(Some(9, [5]), shuffle=False, verbose=0)


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    encoder = msd.testing.tiny_encoder(num_layers=0)
    encoder.save(tmp_path / "encoder")
    weights = encoder.weights()
    weights["embedding/word"] = np.full_like(weights["embedding/word"], np.nan)
    encoder.set_weights(weights)
    with pytest.raises(InputError, match="`embedding/word`.*NaN"):
        encoder.save(tmp_path / "encoder")
    with pytest.raises(InputError, match="Vectors must be finite.*'Ein Hund.'"):
        encoder.encode(["Ein Hund."])
    assert msd.load_encoder(tmp_path / "encoder").encode(["Ein Hund."]).shape == (1, 16)
    encoder = msd.load_encoder(tmp_path / "encoder")
    guides = {"teacher": (msd.data.GuideStore(HashGuide(16), tmp_path / "v"), "source")}
    rows = msd.testing.tiny_pairs()
    pairs = msd.data.PairBatches(rows, encoder, guides, 2, epochs=1)
    stage = TeachAssistant(encoder)
    stage.compile("sgd", run_eagerly=True)

    def spoil(batch, logs):
        if batch == 1:
            encoder.set_weights(weights)

    spoils = keras.callbacks.LambdaCallback(on_train_batch_end=spoil)
    with pytest.raises(InputError, match="weights.*must be finite.*before it stays"):
        msd.training.fit(stage, pairs, tmp_path / "checkpoints", 0, callbacks=[spoils])
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [
        "update_0000000001"
    ]
