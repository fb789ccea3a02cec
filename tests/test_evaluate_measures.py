import keras
import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.evaluate import cost, speed
from keras_msd.evaluate.measures import parameters_by_layer
from keras_msd.testing import tiny_encoder


def test_parameters_and_bytes_of_a_student_by_hand(tokenizer):
    encoder = tiny_encoder(
        tokenizer, num_layers=1, repeats=3, bottleneck_dim=4, hidden_dim=8,
        intermediate_dim=12, max_length=10,
    )  # fmt: skip
    rows, width, hidden, inner = tokenizer.vocabulary_size, 4, 8, 12
    table = rows * width + width * hidden
    embedding = table + 10 * hidden + hidden + 2 * hidden  # positions, type, norm
    block = 4 * (hidden * hidden + hidden) + 4 * hidden  # attention, two norms
    block += hidden * inner + inner + inner * hidden + hidden
    assert cost(encoder) == {
        "parameters": embedding + block,
        "bytes": 4 * (embedding + block),
        "table_bytes": 4 * table,
    }
    assert parameters_by_layer(encoder) == {"embedding": embedding, "body": block}


def test_a_full_table_has_no_projection(tokenizer):
    assert cost(tiny_encoder(tokenizer))["table_bytes"] == (
        4 * tokenizer.vocabulary_size * 16
    )


@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("bfloat16", 2)])
def test_bytes_follow_the_dtype_of_the_weights(dtype, size):
    class Holder:
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(5, dtype=dtype)]
        )

    assert cost(Holder) == {"parameters": 20, "bytes": 20 * size, "table_bytes": 0}


def test_speed_is_the_median_of_the_timed_passes(monkeypatch):
    clock = iter([0.0, 4.0, 10.0, 12.0, 20.0, 29.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    calls = []

    class Slow:
        def encode(self, texts):
            calls.append(len(texts))
            return np.zeros((len(texts), 2))

    assert speed(Slow(), ["a"] * 10, repeats=3) == {
        "sentences_per_second": 2.5,
        "sentences": 10,
        "seconds": 4.0,
    }
    assert calls == [10, 10, 10, 10]  # one more than is timed
    with pytest.raises(InputError, match="`sentences` must be at least 1"):
        speed(Slow(), [])
