"""A word that occurs twice in a batch has one gradient, under TensorFlow as under JAX.

This file is also the program that each backend runs: it writes what it computed.
"""

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import keras
import numpy as np
import pytest
from test_backend_parity import redrawn_network, values
from test_stages import ROWS, batch

import keras_msd
from keras_msd.stages import ContrastiveLearning
from keras_msd.training.optimizer import make_optimizer

UPDATES, BATCHES, RATE = 20, 4, 1e-2
CLIPPING = {"clipped": 0.5, "unclipped": None}
WAYS = ("plain", "chunked")


def changes(clip_norm, way="plain", scope=nullcontext):
    """Return by how much 20 updates changed each variable."""
    with scope():
        model = redrawn_network()
        stage = ContrastiveLearning(model, chunk_size=4 if way == "chunked" else None)
        stage.compile(make_optimizer(RATE, steps=UPDATES, clip_norm=clip_norm))
        before = values(model)
        # The vocabulary is small: most words, and the pad token, occur several times.
        data = [batch(seed) for seed in range(BATCHES)]
        x, y = (
            {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
            for parts in zip(*data, strict=True)
        )
        epochs = UPDATES // BATCHES
        stage.fit(x, y, batch_size=ROWS, epochs=epochs, shuffle=False, verbose=0)
        return {path: value - before[path] for path, value in values(model).items()}


def all_changes(ways, scope=nullcontext):
    return {
        f"{way}/{clipping}/{path}": change
        for way in ways
        for clipping, norm in CLIPPING.items()
        for path, change in changes(norm, way, scope).items()
    }


def in_process(path, backend):
    """Start this file as a program."""
    root = str(Path(keras_msd.__path__[0]).parent)
    own = {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "PYTHONPATH": root}
    own["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # of the compiler: half the time
    return subprocess.Popen([sys.executable, __file__, str(path)], env=os.environ | own)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return the changes under JAX, and those under TensorFlow in all its ways."""
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("changes")
    files = {name: folder / f"{name}.npz" for name in ("jax", "tensorflow")}
    programs = [in_process(path, backend) for backend, path in files.items()]
    here = all_changes(WAYS)
    assert [program.wait(timeout=600) for program in programs] == [0, 0]
    there = {name: dict(np.load(path)) for name, path in files.items()}
    assert str(there["jax"].pop("backend")) == "jax"
    assert str(there["tensorflow"].pop("backend")) == "tensorflow"
    return there["jax"], here | there["tensorflow"]


@pytest.mark.parametrize("clipping", CLIPPING)
@pytest.mark.parametrize("way", [*WAYS, "replicas"])
def test_twenty_updates_change_every_variable_as_under_jax(found, way, clipping):
    jax, tensorflow = found
    paths = [name for name in jax if f"/{clipping}/" in name]
    assert len(paths) == 24
    for name in paths:
        wanted, made = jax[name], tensorflow[name.replace("plain", way)]
        largest = np.abs(wanted).max()
        if name.endswith("key/bias"):
            continue  # softmax ignores what all keys share: Adam scales its rounding
        assert largest > 1e-3, name
        worst = np.abs(made - wanted).max()
        assert worst <= 1e-5 * largest, (name, worst / largest)


if __name__ == "__main__":
    backend, way, scope = keras.backend.backend(), "plain", nullcontext
    if backend == "tensorflow":
        import tensorflow as tf

        processor = tf.config.list_physical_devices("CPU")[0]
        halves = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(processor, halves)
        way = "replicas"
        scope = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope
    np.savez(sys.argv[1], backend=backend, **all_changes([way], scope))
