"""The optimizer of a stage: its rates, what it decays, what it clips."""

import keras
import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.training.optimizer import WarmUp, make_optimizer


def rates(*arguments):
    schedule = WarmUp(*arguments)
    return [float(schedule(step)) for step in range(schedule.steps + 2)]


def test_cosine_and_constant():
    half = [0.5 * (1 + np.cos(np.pi * k / 4)) for k in range(5)]
    made = rates(1.0, 5, 0.2, "cosine")
    np.testing.assert_allclose(made, [1, *half, 0], atol=1e-6)
    assert rates(3.0, 4, 0.5, "constant") == [1.5, 3, 3, 3, 3, 3]


def test_without_warm_up_the_first_update_has_the_peak():
    assert rates(1.0, 4, 0.0, "linear") == [1, 0.75, 0.5, 0.25, 0, 0]
    assert rates(1.0, 3, 0.1, "constant")[0] == 1


def test_the_rate_steps_per_update_and_survives_a_round_trip():
    optimizer = make_optimizer(1.0, steps=4, warmup=0, clip_norm=None)
    weight = keras.Variable([1.0], name="kernel")
    for wanted in (1, 0.75, 0.5):
        assert float(optimizer.learning_rate) == wanted
        optimizer.apply([keras.ops.ones((1,))], [weight])
    twin = keras.saving.deserialize_keras_object(
        optimizer.get_config()["learning_rate"]
    )
    assert isinstance(twin, WarmUp) and float(twin(1)) == 0.75


def test_published_settings_are_the_defaults():
    config = make_optimizer(2e-5, steps=100).get_config()
    wanted = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01}
    assert wanted | {"global_clipnorm": 1.0} == {
        key: config[key] for key in (*wanted, "global_clipnorm")
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "`steps` must be at least 1"),
        ({"schedule": "linaer"}, "Did you mean `linear`"),
        ({"warmup": 1.0}, r"\[0, 1\)"),
        ({"weight_decay": -1}, "`weight_decay` must be at least 0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"clip_norm": -1.0}, "`clip_norm` must be above 0"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(InputError, match=message):
        make_optimizer(**{"learning_rate": 1e-3, "steps": 10} | options)
