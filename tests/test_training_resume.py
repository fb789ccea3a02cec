"""Training that was stopped ends with the bytes of one that never was."""

import os
import signal

import keras
import numpy as np
import pytest
from tiny_data import HashGuide

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.evaluate.callbacks import ScoreCallback
from keras_msd.training.checkpoint import STATE

UPDATES = 6


class StopAt(keras.callbacks.Callback):
    """Does something after an update, counted in this process alone."""

    def __init__(self, update, action):
        super().__init__()
        self.update, self.action = update, action

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self.update:
            self.action()


def crash():
    raise RuntimeError("power cut")


def score(encoder):
    vector = encoder.encode(["Ein Hund.", "A cat."])
    return {"cosine": float(vector[0] @ vector[1]), "primary": "cosine"}


def train(
    tmp_path,
    name,
    stop=None,
    minutes=0.0,
    kind="TeachAssistant",
    seed=3,
    rate=1e-2,
):
    """Return the bytes and scores at the end of a training, or raise what stops it."""
    keras.utils.set_random_seed(seed)
    encoder = msd.testing.tiny_encoder(dropout=0.1, num_layers=0)
    store = msd.data.GuideStore(HashGuide(dim=encoder.dim), tmp_path / "vectors")
    goals = ["teacher_source", "teacher_target"]
    if kind == "TeachAssistant":
        goals = ["teacher"]
    guides = {goal: (store, "source") for goal in goals}
    batches = msd.data.PairBatches(
        msd.testing.tiny_pairs(), encoder, guides, 4, epochs=3
    )
    stage = getattr(msd.stages, kind)(encoder)
    optimizer = msd.training.make_optimizer(rate, steps=UPDATES)
    stage.compile(optimizer, run_eagerly=True)
    looks = ScoreCallback(encoder, score, every=2, best_weights=True)
    keras.utils.set_random_seed(3)
    monitor = msd.training.CollapseMonitor(batches.batch(0)[0], every=2)
    stops = [StopAt(*stop)] if stop else []
    callbacks = [looks, monitor, *stops]
    fitted = msd.training.fit(
        stage, batches, tmp_path / name, minutes, callbacks=callbacks, verbose=0
    )
    assert isinstance(fitted.history, keras.callbacks.History)
    arrays = [v.numpy() for v in (*encoder.model.variables, *stage.optimizer.variables)]
    return arrays, looks.record, looks.best_step, monitor.updates


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole"), "checkpoints", minutes=60)


def assert_same(one, other):
    for mine, theirs in zip(one[0], other[0], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert one[1:] == other[1:]


def test_training_goes_on_where_it_crashed_time_and_again(undisturbed, tmp_path):
    for seed, update in ((3, 3), (98, 1), (97, 1)):
        with pytest.raises(RuntimeError, match="power cut"):
            train(tmp_path, "checkpoints", (update, crash), seed=seed)
        assert len(list((tmp_path / "checkpoints").iterdir())) <= 2
    # A random start of another seed: everything comes out of the checkpoint.
    assert_same(train(tmp_path, "checkpoints", seed=99), undisturbed)


@pytest.mark.parametrize("update", [2, UPDATES])
def test_a_signal_waits_for_the_end_of_the_update(undisturbed, tmp_path, update):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    stop = update, lambda: os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, "checkpoints", stop, minutes=60)
    (path,) = (tmp_path / "checkpoints").iterdir()
    assert path.name == f"update_{update:010d}"
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    assert_same(train(tmp_path, "checkpoints", seed=99), undisturbed)


def test_a_damaged_checkpoint_is_said_and_the_one_before_it_taken(
    undisturbed, tmp_path
):
    with pytest.raises(RuntimeError):
        train(tmp_path, "checkpoints", (4, crash))
    older, newer = sorted((tmp_path / "checkpoints").iterdir())
    damage(newer)
    with pytest.warns(UserWarning, match="is damaged.*an older one"):
        result = train(tmp_path, "checkpoints", seed=99)
    assert_same(result, undisturbed)


def test_no_whole_checkpoint_is_an_error(tmp_path):
    with pytest.raises(RuntimeError):
        train(tmp_path, "checkpoints", (3, crash))
    for path in (tmp_path / "checkpoints").iterdir():
        damage(path)
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(InputError, match="Every checkpoint.*Remove that folder"),
    ):
        train(tmp_path, "checkpoints")


def damage(path):
    content = bytearray((path / STATE).read_bytes())
    content[len(content) // 2] ^= 1
    (path / STATE).write_bytes(content)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    with pytest.raises(RuntimeError):
        train(tmp_path, "checkpoints", (3, crash))
    with pytest.raises(InputError, match="Received: stage TeachThinDeep; there: Teach"):
        train(tmp_path, "checkpoints", kind="TeachThinDeep")
    with pytest.raises(InputError, match=r"rate.config.peak 0.02; there: 0.01"):
        train(tmp_path, "checkpoints", rate=2e-2)


@pytest.mark.parametrize("endless", [True, False])
def test_training_must_be_one_pass_over_our_batches(tmp_path, endless):
    encoder = msd.testing.tiny_encoder()
    store = msd.data.GuideStore(HashGuide(dim=encoder.dim), tmp_path / "vectors")
    pairs, guides = msd.testing.tiny_pairs(), {"teacher": (store, "source")}
    batches = msd.data.PairBatches(pairs, encoder, guides, 4) if endless else iter(())
    stage = msd.stages.TeachAssistant(encoder)
    stage.compile("adam")
    with pytest.raises(InputError, match="epochs=3"):
        msd.training.fit(stage, batches, tmp_path / "checkpoints")
