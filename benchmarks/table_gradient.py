"""Milliseconds of an update of a word table alone, where a step costs nothing else.

python benchmarks/table_gradient.py
PYTHONPATH=OTHER_CHECKOUT python benchmarks/table_gradient.py
"""

import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import keras_msd as msd
from keras_msd.models.config import EncoderConfig
from keras_msd.models.network import build_model

TABLES = ((12_000, 128), (250_000, 384))
ROWS, LENGTH, UPDATES = 64, 32, 15


def batch(vocabulary_size: int, width: int) -> tuple[dict[str, np.ndarray], ...]:
    """Return a batch whose words are as frequent as Zipf's law has them."""
    draw = np.random.default_rng(3)
    shares = 1 / np.arange(1, vocabulary_size)
    shares /= shares.sum()
    x = {"group": np.arange(ROWS, dtype="int32")}
    for side in ("source", "target"):
        ids = draw.choice(vocabulary_size - 1, (ROWS, LENGTH), p=shares) + 1
        x[f"{side}_token_ids"] = ids.astype("int32")
        x[f"{side}_padding_mask"] = np.ones((ROWS, LENGTH), "int32")
    return x, {"teacher": draw.normal(size=(ROWS, width)).astype("float32")}


def main() -> None:
    """Print the median of each table."""
    print(msd.__path__[0])
    for vocabulary_size, width in TABLES:
        config = EncoderConfig(
            vocabulary_size=vocabulary_size,
            hidden_dim=width,
            num_layers=0,
            num_heads=4,
            intermediate_dim=width,
            max_length=LENGTH,
            pad_id=0,
        )
        stage = msd.stages.TeachAssistant(build_model(config))
        stage.compile(msd.stages.make_optimizer(1e-3, steps=1000))
        x, y = batch(vocabulary_size, width)
        spent = []
        for _ in range(UPDATES + 2):  # the first two trace and compile
            began = time.perf_counter()
            stage.train_on_batch(x, y)
            spent.append(1000 * (time.perf_counter() - began))
        median, least = statistics.median(spent[2:]), min(spent[2:])
        print(f"{vocabulary_size} x {width}: median {median:.1f}, least {least:.1f} ms")


if __name__ == "__main__":
    main()
