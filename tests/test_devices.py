"""What trainings do by default on devices that tests do not have."""

import pytest

from keras_msd.checks import InputError
from keras_msd.devices import default_settings, device_settings
from keras_msd.stages.imitation import TeachAssistant
from keras_msd.testing import tiny_encoder


@pytest.mark.parametrize(
    ("backend", "devices", "expected"),
    [
        ("tensorflow", ["cpu"], (False, None, True, 1)),
        ("tensorflow", ["cpu", "gpu"], (True, 6, False, 32)),
        ("jax", ["cpu"], (True, 6, True, 1)),
        ("jax", ["gpu"], (True, 6, False, 32)),
        ("jax", ["tpu"], (True, 6, False, 32)),
        ("torch", [], (False, None, True, 1)),
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
    monkeypatch.setattr("keras_msd.stages.stage.device_settings", lambda: gpu)
    stage.compile("sgd")
    assert stage.jit_compile and not device_settings().xla
    stage.compile("sgd", run_eagerly=True)
    assert not stage.jit_compile
