"""Layers against formulas written out in NumPy."""

from typing import get_args

import keras
import numpy as np
import pytest
from scipy.special import erf

from keras_msd.checks import InputError
from keras_msd.layers import (
    POOLINGS,
    BottleneckEmbedding,
    L2Normalize,
    Pooling,
    RecurrentEncoder,
    gelu_erf,
    gelu_tanh,
    masked_mean,
)
from keras_msd.models.network import EncoderConfig
from keras_msd.recipes.settings import AssistantSettings
from keras_msd.testing import run_layer_test

RNG = np.random.default_rng(0)
HIDDEN = RNG.normal(size=(2, 4, 8)).astype("float32")
MASK = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32")
IDS = np.array([[5, 3, 2, 1], [4, 4, 6, 2]], "int32")


def test_layers_keep_the_rules_of_a_layer():
    run_layer_test(BottleneckEmbedding(9, 3, 8, 6, pad_id=1), IDS, weights=6)
    run_layer_test(BottleneckEmbedding(9, None, 8, 6, layer_norm=False), IDS, weights=3)
    run_layer_test(RecurrentEncoder(2, 3, 2, 16), HIDDEN, MASK, weights=32)
    thin = RecurrentEncoder(2, 3, 3, 16, head_dim=5)
    run_layer_test(thin, HIDDEN, MASK, weights=32)
    run_layer_test(Pooling("cls"), HIDDEN, MASK, weights=0)
    run_layer_test(L2Normalize(), HIDDEN[:, 0], weights=0)


def test_gelu_is_the_formula():
    x = np.linspace(-4, 4, 101).astype("float32")
    exact = 0.5 * x * (1 + erf(x / np.sqrt(2)))
    np.testing.assert_allclose(gelu_erf(x), exact, atol=1e-6)
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(gelu_tanh(x), tanh, atol=1e-6)
    assert np.abs(exact - tanh).max() > 1e-4


def test_poolings_of_encoders_and_recipes_are_those_of_the_layer():
    assert get_args(EncoderConfig.model_fields["pooling"].annotation) == POOLINGS
    of_recipes, none = get_args(AssistantSettings.model_fields["pooling"].annotation)
    assert get_args(of_recipes) == POOLINGS and none is type(None)


def test_pooling_is_blind_to_padding():
    changed = HIDDEN.copy()
    changed[0, 3] = 1e6
    for mode in ("mean", "cls", "max"):
        once = np.array(Pooling(mode)(HIDDEN, MASK))
        np.testing.assert_allclose(once, Pooling(mode)(changed, MASK), rtol=1e-6)
    np.testing.assert_allclose(
        masked_mean(HIDDEN, MASK)[0], HIDDEN[0, :3].mean(axis=0), rtol=1e-5
    )
    np.testing.assert_allclose(
        Pooling("max")(HIDDEN, MASK)[0], HIDDEN[0, :3].max(axis=0), rtol=1e-6
    )


def test_a_sentence_without_tokens_is_zero_not_nan():
    nothing = np.zeros_like(MASK)
    assert not np.array(masked_mean(HIDDEN, nothing)).any()
    assert not np.array(L2Normalize()(np.zeros((1, 3), "float32"))).any()


def test_mean_pooling_is_float32_under_float16():
    policy = keras.dtype_policies.DTypePolicy("mixed_float16")
    long = np.full((1, 4096, 2), 20.0, "float16")
    pooled = Pooling("mean", dtype=policy)(long, np.ones((1, 4096), "int32"))
    np.testing.assert_allclose(pooled, 20.0)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_directions_are_float32_whatever_the_policy(policy):
    # In float16 the first is infinite and the second zero; bfloat16 rounds the last.
    vectors = np.array([[1e5, 1], [1e-9, 1e-9], [1.001, 1]], "float32")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    made = L2Normalize(dtype=policy)(vectors)
    np.testing.assert_allclose(made, unit, rtol=1e-5)


def test_bottleneck_embedding_is_the_formula():
    layer = BottleneckEmbedding(
        9, 3, 8, 6, num_types=2, pad_id=1, position_offset=2, layer_norm_epsilon=1e-5
    )
    layer.build(IDS.shape)
    for weight in layer.weights:
        weight.assign(RNG.normal(size=weight.shape))
    word, projection, position, kind, gamma, beta = layer.get_weights()
    rows = word[IDS] * (IDS != 1)[..., None]
    total = rows @ projection + position[2:6] + kind[0]
    centred = total - total.mean(-1, keepdims=True)
    normal = centred / np.sqrt(total.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(layer(IDS), normal * gamma + beta, atol=1e-5)
    assert projection.shape == (3, 8)
    assert position.shape == (8, 8)


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_attention_does_not_try_a_kernel_that_refuses_masks(monkeypatch, before):
    enabled = []

    class Attention(keras.layers.MultiHeadAttention):
        def __init__(self, *given, **options):
            enabled.append(keras.config.is_flash_attention_enabled())  # read here
            super().__init__(*given, **options)

    monkeypatch.setattr(keras.layers, "MultiHeadAttention", Attention)
    try:
        getattr(keras.config, f"{before}_flash_attention")()
        RecurrentEncoder(2, 1, 2, 16)(HIDDEN, MASK)
        after = keras.config.is_flash_attention_enabled()
    finally:
        keras.config.enable_flash_attention()
    assert enabled == [False, False]
    assert (after is False) == (before == "disable")


def test_dropout_differs_from_pass_to_pass():
    layer = RecurrentEncoder(1, 2, 2, 16, dropout=0.5)
    layer.build(HIDDEN.shape)
    layer.set_weights([RNG.normal(0, 0.3, w.shape) for w in layer.weights])
    weights = {id(weight) for weight in layer.weights}
    states = [one for one in layer.variables if id(one) not in weights]
    first = [keras.ops.convert_to_numpy(state) for state in states]

    def rewind():
        for state, value in zip(states, first, strict=True):
            state.assign(value)

    def by_hand(rewound):
        rewind()
        hidden = HIDDEN
        for _ in range(2):
            if rewound:
                rewind()
            hidden = layer.blocks[0](hidden, training=True)
        return np.array(hidden)

    rewind()
    made = np.array(layer(HIDDEN, training=True))
    np.testing.assert_allclose(made, by_hand(rewound=False), atol=1e-5)
    assert np.abs(made - by_hand(rewound=True)).max() > 1e-2
    assert np.abs(made - np.array(layer(HIDDEN, training=False))).max() > 1e-2


def test_zero_residuals_make_a_prenorm_unit_the_identity():
    layer = RecurrentEncoder(2, 3, 2, 16, normalize_first=True, zero_residuals=True)
    np.testing.assert_array_equal(layer(HIDDEN, MASK), HIDDEN)
    random = RecurrentEncoder(2, 3, 2, 16, normalize_first=True)
    assert np.abs(np.array(random(HIDDEN, MASK)) - HIDDEN).max() > 1e-3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RecurrentEncoder(1, 1, 2, 16, activation="gelu"), "gelu_erf"),
        (lambda: Pooling("median"), "mean"),
    ],
)
def test_wrong_arguments_are_named(make, words):
    with pytest.raises(InputError, match=words):
        make()


def _unit(repeats, blocks=2):
    layer = RecurrentEncoder(blocks, repeats, 2, 16, dropout=0.0)
    layer.build(HIDDEN.shape)
    return layer


def _gradients(layer):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = keras.ops.sum(layer(HIDDEN) * HIDDEN)
    return [np.array(g) for g in tape.gradient(loss, layer.trainable_variables)]


def test_gradient_is_the_sum_over_untied_copies():
    shared, untied = _unit(repeats=3), _unit(repeats=1, blocks=6)
    values = [RNG.normal(0, 0.3, weight.shape) for weight in shared.weights]
    shared.set_weights(values)
    assert len(values) == 32
    untied.set_weights(values * 3)
    np.testing.assert_allclose(shared(HIDDEN), untied(HIDDEN), atol=1e-5)
    tied = _gradients(shared)
    passes = _gradients(untied)
    parts = [passes[start : start + 32] for start in (0, 32, 64)]
    for one, *three in zip(tied, *parts, strict=True):
        np.testing.assert_allclose(one, sum(three), atol=1e-4)
    last_only = max(
        np.abs(one - last).max() for one, last in zip(tied, parts[-1], strict=True)
    )
    assert last_only > 1e-3
