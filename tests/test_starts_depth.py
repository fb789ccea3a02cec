"""Which layers a shallower student keeps."""

import numpy as np
import pytest

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.starts import choose_layers
from keras_msd.testing import tiny_encoder

TEXTS = ["The cat sleeps.", "Die Katze schläft gut.", "A dog", "Ein Hund", "rain"]


def example():
    """Return an encoder of five layers, some of which add next to nothing."""
    encoder = tiny_encoder(num_layers=5, bottleneck_dim=None, dropout=0.0)
    values, draw = encoder.weights(), np.random.default_rng(2)
    for path, value in values.items():
        if path.startswith("body/") and path.endswith("/kernel"):
            values[path] = 0.5 * draw.normal(size=value.shape).astype("float32")
    for layer in (1, 3):
        for name in (
            "self_attention_layer/attention_output",
            "feedforward_output_dense",
        ):
            values[f"body/block_{layer}/{name}/kernel"] *= 1e-3
    encoder.set_weights(values)
    return encoder


def change(encoder, layers):
    """Return what `choose_layers` compares, from an encoder that has only these."""
    student = msd.build_student(encoder, len(layers), None, repeats=1, unit_from=layers)
    given, whole = (it.encode(TEXTS) for it in (student, encoder))
    given, whole = given - given.mean(axis=0), whole - whole.mean(axis=0)
    return np.square(given - whole).sum() / np.square(whole).sum()


def test_layers_that_add_nothing_go_first():
    encoder = example()
    assert choose_layers(encoder, TEXTS, 3) == [0, 2, 4]
    assert choose_layers(encoder, TEXTS, 5) == [0, 1, 2, 3, 4]


def test_each_time_the_layer_goes_without_which_embeddings_change_least():
    encoder = example()
    kept = [0, 2, 4]
    ways = [[it for it in kept if it != gone] for gone in kept]
    best = min(ways, key=lambda layers: change(encoder, layers))
    assert choose_layers(encoder, TEXTS, 2) == best
    assert len({round(change(encoder, it), 4) for it in ways}) == 3


def test_the_encoder_stays_as_it_is():
    encoder = example()
    before = encoder.weights()
    choose_layers(encoder, TEXTS, 2)
    for path, value in encoder.weights().items():
        np.testing.assert_array_equal(value, before[path])


@pytest.mark.parametrize(
    ("texts", "count", "message"),
    [
        (TEXTS, 0, "count=0"),
        (TEXTS, 3, "count=3, 2 layers"),
        ([], 1, "must have sentences"),
        (["one", "one"], 1, "two different sentences.*2, all alike"),
    ],
)
def test_what_cannot_be_chosen_is_refused(texts, count, message):
    with pytest.raises(InputError, match=message):
        choose_layers(tiny_encoder(num_layers=2), texts, count)


def test_layers_that_are_repeated_are_refused():
    repeated = tiny_encoder(num_layers=2, repeats=2)
    with pytest.raises(InputError, match="repeats=2"):
        choose_layers(repeated, TEXTS, 1)
