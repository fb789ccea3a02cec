"""The operations of a training step, by which the use of a device is judged."""

from pathlib import Path

import numpy as np
import pytest

from keras_msd.testing import tiny_encoder


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")


def test_operations_are_those_of_the_kernels(tokenizer):
    from operations import step_operations

    encoder = tiny_encoder(tokenizer, bottleneck_dim=4, repeats=3, projection_dim=12)
    lengths = np.array([3, 7, 5])
    tokens, sentences = 15, 3
    count = 0
    for path, weight in encoder.weights().items():
        if path.startswith("body/") and path.endswith("/kernel"):
            count += 3 * 2 * weight.size * tokens
        elif path == "embedding/projection":
            block = 2 * weight.size * tokens
        elif path == "projection/kernel":
            count += 2 * weight.size * sentences
    scores = sum(
        2 * 2 * length * length * encoder.config.hidden_dim for length in lengths
    )
    count += block + encoder.config.depth * scores
    assert step_operations(encoder.config, lengths) == 3 * count
    assert step_operations(encoder.config, lengths, whole=False) == 3 * block
