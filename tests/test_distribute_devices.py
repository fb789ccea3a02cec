"""What trainings do by default on devices that tests do not have."""

from types import SimpleNamespace

import pytest

from keras_msd.checks import InputError
from keras_msd.data.pair import Pair
from keras_msd.distribute import (
    default_settings,
    device_settings,
    make_deterministic,
)
from keras_msd.recipes.train import PairRows
from keras_msd.stages import TeachAssistant
from keras_msd.stages.settings import PairStageSettings
from keras_msd.testing import tiny_encoder
from keras_msd.training.callbacks import History


@pytest.mark.parametrize(
    ("backend", "devices", "expected"),
    [
        ("tensorflow", ["cpu"], (False, None, True, 1, "float32")),
        ("tensorflow", ["cpu", "gpu"], (True, 6, False, 32, "auto")),
        ("jax", ["cpu"], (True, 6, True, 1, "float32")),
        ("jax", ["gpu"], (True, 6, False, 32, "auto")),
        ("jax", ["tpu"], (True, 6, False, 32, "auto")),
        ("torch", [], (False, None, True, 1, "float32")),
    ],
)
def test_defaults_follow_the_device(backend, devices, expected):
    assert default_settings(backend, devices) == expected


def test_tensorflow_on_a_tpu_is_sent_to_jax():
    with pytest.raises(InputError, match="needs the backend jax. Received: tensorflow"):
        default_settings("tensorflow", ["cpu", "tpu"])


def test_a_stage_is_compiled_by_xla_on_a_gpu(tokenizer, monkeypatch):
    stage = TeachAssistant(tiny_encoder(tokenizer))
    stage.compile("sgd")
    assert not stage.jit_compile
    gpu = default_settings("tensorflow", ["gpu"])
    monkeypatch.setattr(
        "keras_msd.training.tensorflow_step.device_settings", lambda: gpu
    )
    stage.compile("sgd")
    assert stage.jit_compile and not device_settings().xla
    stage.compile("sgd", run_eagerly=True)
    assert not stage.jit_compile


@pytest.mark.parametrize(
    ("steps", "at_once"), [(100, 1), (1000, 10), (3200, 32), (10_000, 25), (3700, 1)]
)
def test_the_record_of_a_stage_keeps_its_steps_on_a_gpu(
    steps, at_once, monkeypatch, tmp_path
):
    history = History(steps, tmp_path / "history.csv", "stage", 1)
    assert history.updates_at_once() == 1
    gpu = default_settings("jax", ["gpu"])
    monkeypatch.setattr("keras_msd.training.callbacks.device_settings", lambda: gpu)
    assert history.updates_at_once() == at_once
    history.set_model(SimpleNamespace(reset_metrics=lambda: None))
    history.on_train_begin()
    for done in range(at_once, steps + 1, at_once):
        history.on_train_batch_end(done - 1, {"loss": 1.0})
    assert history.record["steps"] == list(range(steps // 100, steps + 1, steps // 100))


def test_a_last_execution_of_fewer_updates_is_counted_as_it_is(monkeypatch, tmp_path):
    gpu = default_settings("jax", ["gpu"])
    monkeypatch.setattr("keras_msd.training.callbacks.device_settings", lambda: gpu)
    history = History(1003, tmp_path / "history.csv", "stage", 1)
    at_once = history.updates_at_once()
    assert 1003 % at_once
    history.set_model(SimpleNamespace(reset_metrics=lambda: None))
    history.on_train_begin()
    for first in range(0, 1003, at_once):  # Keras names the last of a full execution
        history.on_train_batch_end(first + at_once - 1, {"loss": 1.0})
    assert history.done == history.record["steps"][-1] == 1003


def test_determinism_is_asked_of_jax_by_its_environment(monkeypatch):
    gpu = default_settings("jax", ["gpu"])
    monkeypatch.setattr("keras_msd.distribute.device_settings", lambda: gpu)
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    make_deterministic(None)
    with pytest.raises(InputError, match="--xla_gpu_deterministic_ops=true in the env"):
        make_deterministic(True)
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_deterministic_ops=false")
    with pytest.raises(InputError, match="Received: XLA_FLAGS='--xla.*=false'"):
        make_deterministic(True)
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")
    make_deterministic(True)


@pytest.mark.parametrize("buckets", [2, None])
def test_a_recipes_stage_never_exceeds_its_buckets(buckets, tokenizer, monkeypatch):
    gpu = default_settings("tensorflow", ["gpu"])
    monkeypatch.setattr("keras_msd.data.batches.device_settings", lambda: gpu)
    texts = ["cat " * (row % 60 + 1) for row in range(360)]
    pairs = [Pair(text, "dog " + text, "de", "some") for text in texts]
    data = SimpleNamespace(max_length=64)
    run = SimpleNamespace(recipe=SimpleNamespace(data=data), seed=lambda name: 0)
    settings = PairStageSettings(steps=9, batch_size=4, buckets=buckets)
    stage = PairRows(run, "teach_student", settings)
    stage.rows, stage.options = pairs, lambda guides: {"guides": guides}
    encoder = tiny_encoder(tokenizer, max_length=64)
    shapes = {
        tuple(x[f"{side}_token_ids"].shape for side in ("source", "target"))
        for x, _ in stage.batches(encoder, {}, 180)
    }
    most = buckets or 6
    assert len(shapes) == most
