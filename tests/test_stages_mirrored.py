"""A stage under `tf.distribute.MirroredStrategy`, on two logical processors.

This file is also the program with two processors: it writes what it computed.
"""

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import keras
import numpy as np
import pytest
from test_stages import ROWS, batch, network

import keras_msd
from keras_msd.checks import InputError
from keras_msd.data import GuideStore, PairBatches
from keras_msd.stages import ContrastiveLearning, TeachAssistant
from keras_msd.testing import tiny_encoder, tiny_pairs


def one_step(x, y, rows, scaled=False, run_eagerly=True):
    """Return the logs of one SGD step on a batch, and the weights after it."""
    stage = ContrastiveLearning(network(), "bool")
    optimizer = keras.optimizers.SGD(0.1, global_clipnorm=0.1)
    if scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=16)
    stage.compile(optimizer, run_eagerly=run_eagerly)
    history = stage.fit(x, y, batch_size=rows, shuffle=False, verbose=0).history
    logs = {name: values[0] for name, values in history.items()}
    if not scaled:
        stage.compile(optimizer, run_eagerly=True)
        later = stage.evaluate(x, y, batch_size=rows, verbose=0, return_dict=True)
        logs |= {f"later_{name}": value for name, value in later.items()}
    return logs | {w.path: keras.ops.convert_to_numpy(w.value) for w in stage.weights}


def three_passes(folder, scope=nullcontext):
    """Return the loss of each pass over batches that are read ahead to the end."""
    keras.utils.set_random_seed(3)
    with scope():
        encoder = tiny_encoder(num_layers=0, dropout=0.0)
    store = GuideStore(tiny_encoder(num_layers=0), folder)
    guides = {"teacher": (store, "source")}
    batches = PairBatches(tiny_pairs(), encoder, guides, batch_size=4, multiple=16)
    with scope():
        stage = TeachAssistant(encoder)
        stage.compile(keras.optimizers.SGD(0.5))
        history = stage.fit(batches, epochs=3, verbose=0).history
    assert len(batches) == 2 and batches.position == 6
    return history["loss"]


def refused():
    """Return the message where XLA is to compile a step on several replicas."""
    stage = ContrastiveLearning(network(), "bool")
    stage.compile(keras.optimizers.SGD(0.1), jit_compile=True)
    x, y = batch()
    with pytest.raises(InputError) as error:
        stage.fit(x, y, batch_size=ROWS, verbose=0)
    return str(error.value)


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mirrored")
    command = [sys.executable, __file__, str(folder)]
    root = str(Path(keras_msd.__path__[0]).parent)
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": root})
    return dict(np.load(folder / "made.npz"))


@pytest.mark.parametrize("scaled", [False, True])
def test_two_replicas_see_the_rows_of_both_and_add_to_the_whole_batch(mirrored, scaled):
    x, y = batch()
    whole = one_step(x, y, ROWS, scaled)
    assert ("later_contrastive" in whole) is not scaled
    half = (
        {k: v[: ROWS // 2] for k, v in x.items()},
        {k: v[: ROWS // 2] for k, v in y.items()},
    )
    # So the test would see rows that are missing.
    alone = one_step(*half, ROWS // 2)
    assert abs(alone["contrastive"] - whole["contrastive"]) > 1e-3
    for name, value in whole.items():
        made = mirrored[f"{scaled}/{name}"]
        np.testing.assert_allclose(made, value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_keras_look_at_a_first_batch_is_no_pass(mirrored, tmp_path):
    losses = three_passes(tmp_path)
    np.testing.assert_allclose(mirrored["losses"], losses, rtol=1e-4)


def test_xla_cannot_compile_a_step_on_several_replicas(mirrored):
    assert "Received: jit_compile=True" in str(mirrored["refused"])


if __name__ == "__main__":
    import tensorflow as tf

    processor = tf.config.list_physical_devices("CPU")[0]
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(processor, halves)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    folder = Path(sys.argv[1])
    made = {"losses": three_passes(folder / "store", strategy.scope)}
    with strategy.scope():
        made["refused"] = refused()
        for scaled in (False, True):
            found = one_step(*batch(), ROWS, scaled, run_eagerly=scaled)
            made |= {f"{scaled}/{name}": value for name, value in found.items()}
    np.savez(folder / "made.npz", **made)
