"""A stage under `tf.distribute.MirroredStrategy`, on two logical processors."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
from test_stages import ROWS, batch, network

import keras_msd
from keras_msd.stages import ContrastiveLearning


def one_step(x, y, rows):
    """Return the logs of one SGD step on a batch, and the weights after it."""
    stage = ContrastiveLearning(network(), "bool")
    stage.compile(keras.optimizers.SGD(0.1))
    history = stage.fit(x, y, batch_size=rows, shuffle=False, verbose=0).history
    logs = {name: values[0] for name, values in history.items()}
    later = stage.evaluate(x, y, batch_size=rows, verbose=0, return_dict=True)
    logs |= {f"later_{name}": value for name, value in later.items()}
    return logs | {w.path: keras.ops.convert_to_numpy(w.value) for w in stage.weights}


def test_two_replicas_see_the_rows_of_both_and_add_to_the_whole_batch(tmp_path):
    path = tmp_path / "mirrored.npz"
    command = [sys.executable, __file__, str(path)]
    root = str(Path(keras_msd.__path__[0]).parent)
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": root})
    made = dict(np.load(path))
    x, y = batch()
    whole = one_step(x, y, ROWS)
    assert made.keys() == whole.keys() and "later_contrastive" in whole
    half = (
        {k: v[: ROWS // 2] for k, v in x.items()},
        {k: v[: ROWS // 2] for k, v in y.items()},
    )
    alone = one_step(*half, ROWS // 2)  # so the test would see rows that are missing
    assert abs(alone["contrastive"] - whole["contrastive"]) > 1e-3
    for name, value in whole.items():
        np.testing.assert_allclose(
            made[name], value, rtol=1e-4, atol=1e-5, err_msg=name
        )


if __name__ == "__main__":
    import tensorflow as tf

    processor = tf.config.list_physical_devices("CPU")[0]
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(processor, halves)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        np.savez(sys.argv[1], **one_step(*batch(), ROWS))
