"""A word that occurs twice in a batch has one gradient, under TensorFlow as under JAX.

This file is also the program that JAX runs: it writes what it computed.
"""

import os
import subprocess
import sys
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


def changes(clip_norm, chunk_size=None):
    """Return by how much 20 updates changed each variable."""
    model = redrawn_network()
    stage = ContrastiveLearning(model, chunk_size=chunk_size)
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


@pytest.fixture(scope="module")
def under_jax(tmp_path_factory):
    """Return the changes under JAX, in a process of its own, with both clippings."""
    pytest.importorskip("jax")
    path = tmp_path_factory.mktemp("changes") / "jax.npz"
    root = str(Path(keras_msd.__path__[0]).parent)
    own = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": root}
    own["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # of the compiler: half the time
    command = [sys.executable, __file__, str(path)]
    subprocess.run(command, check=True, env=os.environ | own)
    there = dict(np.load(path))
    assert str(there.pop("backend")) == "jax"
    return there


@pytest.mark.parametrize(
    ("clipping", "chunk_size"), [("clipped", None), ("clipped", 4), ("unclipped", None)]
)
def test_twenty_updates_change_every_variable_as_under_jax(
    under_jax, clipping, chunk_size
):
    """Of several replicas: test_stages_mirrored.py."""
    made = changes(CLIPPING[clipping], chunk_size)
    assert len(made) == 24
    for path, change in made.items():
        wanted = under_jax[f"{clipping}/{path}"]
        largest = np.abs(wanted).max()
        if path.endswith("key/bias"):
            continue  # softmax ignores what all keys share: Adam scales its rounding
        assert largest > 1e-3, path
        worst = np.abs(change - wanted).max()
        assert worst <= 1e-5 * largest, (path, worst / largest)


if __name__ == "__main__":
    found = {
        f"{clipping}/{path}": change
        for clipping, norm in CLIPPING.items()
        for path, change in changes(norm).items()
    }
    np.savez(sys.argv[1], backend=keras.backend.backend(), **found)
