"""Training on NaN ends at once, or is skipped without a trace; under each backend."""

import keras
import numpy as np
import pytest
from test_stages import batch, network
from tiny_data import HashGuide

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.stages import TeachAssistant
from keras_msd.training.resume import stage_variables


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


def stage_of(rate=1e-3, skip=None, **options):
    keras.utils.set_random_seed(0)
    stage = TeachAssistant(network(), name="stage_1")
    if skip:
        stage.skip_bad_batches(skip)
    stage.compile(msd.stages.make_optimizer(rate, steps=9, warmup=0.0), **options)
    return stage


def values(stage):
    own = (variable for _, variable in stage_variables(stage))
    return [np.array(keras.ops.convert_to_numpy(it)) for it in own]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_update_the_batch_and_the_terms_are_named(value):
    stage = stage_of()
    with pytest.raises(InputError) as error:
        stage.fit(Some(5, [3], value), shuffle=False, verbose=0)
    for part in ("`stage_1`", "source_mse=", "update 4 of", "batch 3 of its stream"):
        assert part in str(error.value)
    assert "its target `teacher` is not finite" in str(error.value)


def test_a_rate_that_is_far_too_high_ends_training():
    with pytest.raises(InputError, match="update [23] of.*its targets are finite"):
        stage_of(rate=1e38).fit(Some(5), shuffle=False, verbose=0)


def test_arguments_by_position_and_callbacks_of_ones_own():
    history = keras.callbacks.History()
    for callbacks in (None, [history], keras.callbacks.CallbackList([history])):
        stage = stage_of()
        if isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks.set_model(stage)
        with pytest.raises(InputError, match="must be finite"):
            stage.fit(Some(4, [1]), None, None, 1, 0, callbacks)


def test_of_several_updates_at_once_the_bad_batch_is_named():
    stage = stage_of(steps_per_execution=4)
    with pytest.raises(InputError, match="update 8 of.*batch 5 of.*`teacher` is not"):
        stage.fit(Some(9, [5]), shuffle=False, verbose=0)


@pytest.mark.parametrize("at_once", [1, 3])
def test_bad_batches_are_skipped_without_a_trace(caplog, at_once):
    """Weights, moments and means are those of the good batches alone."""
    whole = stage_of(skip=2)
    whole.fit(Some(3), shuffle=False, verbose=0)
    stage = stage_of(skip=2, steps_per_execution=at_once)
    logs = stage.fit(Some(5, [0, 3]), shuffle=False, verbose=0).history
    assert logs["bad_batches"] == [2.0] and np.isfinite(logs["loss"]).all()
    assert sum("skipped a batch" in it.getMessage() for it in caplog.records) == 2
    assert float(keras.ops.convert_to_numpy(stage.bad_batches)) == 2
    compared = 0
    own = zip(values(whole), values(stage), strict=True)
    for (_, variable), (one, other) in zip(stage_variables(stage), own, strict=True):
        if variable is not stage.bad_batches and "seed" not in variable.path:
            np.testing.assert_array_equal(one, other, variable.path)
            compared += 1
    assert compared > 20


def test_too_many_bad_batches_end_training():
    stage = stage_of(skip=2)
    with pytest.raises(InputError, match="may skip 2.*Received: 3.*batch 4 of"):
        stage.fit(Some(6, [0, 2, 4, 5]), shuffle=False, verbose=0)


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    encoder = msd.testing.tiny_encoder()
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


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("encoder.json", lambda data: data.replace(b"1e-12", b"1e-11")),
        ("weights.safetensors", lambda data: data[:-9] + b"\0" + data[-8:]),
        ("tokenizer/tokenizer_config.json", lambda data: data + b" "),
    ],
)
def test_a_changed_encoder_is_not_loaded(tmp_path, name, change):
    msd.testing.tiny_encoder().save(tmp_path / "encoder")
    path = tmp_path / "encoder" / name
    assert path.read_bytes() != change(path.read_bytes())
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=f"{name}` .*must be as it was written"):
        msd.load_encoder(tmp_path / "encoder")
