"""An encoder for the ONNX tests, and what runs its file."""

import os
import subprocess
import sys

import keras
import numpy as np

from keras_msd.testing import tiny_encoder

TEXTS = [
    "Die Katze schläft.",
    "",
    "A dog runs in the park. " * 30,
    "القطار 🍀 [SEP] </s>",
    "nul\0inside",
    "ok",
]

WITHOUT_NUL = [text for text in TEXTS if "\0" not in text]

KINDS = {
    "student": {},
    "pre-norm": {
        "num_layers": 2,
        "repeats": 2,
        "normalize_first": True,
        "activation": "gelu_tanh",
        "pooling": "cls",
        "projection_dim": 8,
        "projection_activation": "tanh",
        "normalize": False,
    },
    "checkpoint": {
        "num_layers": 2,
        "repeats": 1,
        "bottleneck_dim": None,
        "num_types": 2,
        "position_offset": 2,
        "max_positions": 40,
        "activation": "relu",
        "pooling": "max",
        "projection_dim": 8,
        "projection_bias": False,
    },
    "closed form": {"num_layers": 0, "repeats": 1, "embedding_layer_norm": False},
}


def random_encoder(tokenizer, **fields):
    """Return an encoder whose vectors differ from sentence to sentence."""
    keras.utils.set_random_seed(3)
    fields = {"bottleneck_dim": 4, "repeats": 3, "num_layers": 1} | fields
    made = tiny_encoder(tokenizer, **fields)
    # Initial values are so small that vectors of all sentences would be alike.
    random = np.random.default_rng(0)
    for weight in made.model.weights:
        gain = weight.path.endswith("gamma")
        weight.assign(gain + random.normal(0, 0.1 if gain else 0.3, weight.shape))
    return made


def cosines(one, other):
    """Return the cosine of each row of two arrays."""
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return (one * other).sum(axis=1) / norms


def run_alone(script, *arguments, blocked):
    """Run a script where some packages cannot be imported."""
    code = (
        "import os, runpy, sys\n"
        f"sys.modules.update(dict.fromkeys({list(blocked)}))\n"
        "sys.argv = sys.argv[1:]\n"
        "sys.path[0] = os.path.dirname(sys.argv[0])\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        timeout=120,
    )
