"""Pruned encoders against Keras layers and a direct solution, layer by layer."""

import keras
import numpy as np
import pytest
from random_encoder import random_encoder
from tokenizer_texts import CORPUS

import keras_msd as msd
from keras_msd.arrays import pad_batch, unit_rows
from keras_msd.checks import InputError
from keras_msd.layers import ACTIVATIONS
from keras_msd.starts import prune_width, refit_layers
from keras_msd.tokenizers.sentencepiece import train_unigram

TEXTS = CORPUS[:24] + ["", "a"]
HIDDEN, HEADS, DIM, NEURONS = 16, 4, 5, 24
SIZES = {"hidden_dim": HIDDEN, "num_heads": HEADS, "intermediate_dim": NEURONS}
SHAPE = {"num_layers": 2, "repeats": 1, "head_dim": DIM, **SIZES}
ATTENTION = "self_attention_layer"
KINDS = {
    "post-norm": {"bottleneck_dim": None, "num_types": 2, "position_offset": 2},
    "pre-norm": {"normalize_first": True, "activation": "gelu_tanh"},
    "no norm": {"embedding_layer_norm": False, "activation": "relu"},
}


@pytest.fixture(scope="module")
def make():
    """Return a function from fields to an encoder whose every weight is drawn."""
    tokenizer = train_unigram(CORPUS, 400)
    return lambda **fields: random_encoder(tokenizer, **SHAPE | fields)


class Block:
    """A layer for padded sentences `(n, length, HIDDEN)`, some units of it."""

    def __init__(self, config, weights, index, mask):
        self.weights = {
            path.split(f"block_{index}/")[1]: value
            for path, value in weights.items()
            if f"block_{index}/" in path
        }
        self.first, self.epsilon = config.normalize_first, config.layer_norm_epsilon
        self.activate = keras.activations.get(ACTIVATIONS[config.activation])
        self.mask = mask

    def norm(self, name, hidden, before):
        if before != self.first:
            return hidden
        gamma, beta = (self.weights[f"{name}/{it}"] for it in ("gamma", "beta"))
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        deviation = np.sqrt(hidden.var(axis=-1, keepdims=True) + self.epsilon)
        return gamma * centred / deviation + beta

    def heads(self, hidden, kept):
        """Return what some heads mix, `(n, length, heads x DIM)`."""
        inputs = self.norm(f"{ATTENTION}_norm", hidden, before=True)

        def projected(name):
            kernel, bias = (
                self.weights[f"{ATTENTION}/{name}/{it}"] for it in ("kernel", "bias")
            )
            made = np.einsum("blh,hnd->bnld", inputs, kernel[:, kept])
            return made + bias[kept][:, None]

        query, key, value = (projected(name) for name in ("query", "key", "value"))
        scores = np.exp(query @ key.transpose(0, 1, 3, 2) / np.sqrt(DIM))
        scores = scores * self.mask[:, None, None]
        mixed = scores / scores.sum(axis=-1, keepdims=True) @ value
        return mixed.transpose(0, 2, 1, 3).reshape(*hidden.shape[:2], -1)

    def neurons(self, hidden, kept):
        inputs = self.norm("feedforward_layer_norm", hidden, before=True)
        name = "feedforward_intermediate_dense"
        kernel, bias = self.weights[f"{name}/kernel"], self.weights[f"{name}/bias"]
        made = self.activate((inputs @ kernel[:, kept] + bias[kept]).astype("float32"))
        return np.array(made)


def direct(inputs, goals, start, bias, ridge):
    """Solve the least squares of `prune_width` with rows for the penalty."""
    columns = inputs.shape[1]
    penalty = ridge * np.square(inputs - inputs.mean(axis=0)).sum(axis=0).mean()
    ones = np.ones((len(inputs), 1))
    rows = np.hstack([inputs, ones]).astype(float)
    rows = np.vstack([rows, np.sqrt(penalty) * np.eye(columns, columns + 1)])
    wanted = np.vstack([goals - inputs @ start - bias, np.zeros((columns, HIDDEN))])
    found = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    return start + found[:-1], bias + found[-1]


def reference(encoder, count, inner, ridge, student=None):
    """Return the weights of the pruned or refitted encoder, and its sentence vectors.

    A student has its own units already.
    """
    small = student or encoder
    config, weights = encoder.config, small.weights()
    ids = encoder.tokenizer.encode(TEXTS, small.max_length)
    batch = pad_batch(ids, config.pad_id)
    mask = batch["padding_mask"] == 1
    full, own = (
        np.array(one.model.get_layer("embedding")(batch["token_ids"]))
        for one in (encoder, small)
    )
    result = dict(weights)
    for index in range(config.num_layers):
        whole = Block(config, encoder.weights(), index, mask)
        thin = Block(config, weights, index, mask)
        for inputs, output, run, width, units, stay in (
            ("query key value", "attention_output", Block.heads, DIM, HEADS, count),
            ("intermediate_dense", "output_dense", Block.neurons, 1, NEURONS, inner),
        ):
            prefix = f"{ATTENTION}/" if width == DIM else "feedforward_"
            norm = f"{ATTENTION}_norm" if width == DIM else "feedforward_layer_norm"
            kernel = whole.weights[f"{prefix}{output}/kernel"].reshape(-1, HIDDEN)
            bias = whole.weights[f"{prefix}{output}/bias"]
            mixed = run(whole, full, np.arange(units))
            parts = np.arange(units * width).reshape(units, width)
            spread = [
                (mixed[mask][:, part] @ kernel[part]).var(axis=0).sum()
                for part in parts
            ]
            kept = np.sort(np.argsort(spread)[-stay:])
            goal = full + mixed @ kernel + bias
            if student:
                kept = np.arange(stay)
                kernel = thin.weights[f"{prefix}{output}/kernel"].reshape(-1, HIDDEN)
                bias = thin.weights[f"{prefix}{output}/bias"]
            seen = run(thin, own, kept)
            solved, shift = direct(
                seen[mask], (goal - own)[mask], kernel[parts[kept].ravel()], bias, ridge
            )
            block = f"body/block_{index}/{prefix}"
            shape = weights[f"{block}{output}/kernel"][kept].shape
            result[f"{block}{output}/kernel"] = solved.reshape(shape)
            result[f"{block}{output}/bias"] = shift
            for name in inputs.split():
                old = weights[f"{block}{name}/kernel"], weights[f"{block}{name}/bias"]
                result[f"{block}{name}/kernel"] = old[0][:, kept]
                result[f"{block}{name}/bias"] = old[1][kept]
            own = thin.norm(norm, own + seen @ solved + shift, before=False)
            full = whole.norm(norm, goal, before=False)
    means = (own * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    return result, unit_rows(means)


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_is_the_direct_solution(kind, make):
    encoder = make(**KINDS[kind])
    before = encoder.fingerprint
    pruned = prune_width(encoder, TEXTS, 3, intermediate_dim=10, ridge=0.01)
    expected, vectors = reference(encoder, 3, 10, ridge=0.01)
    np.testing.assert_allclose(pruned.encode(TEXTS), vectors, atol=1e-4)
    found = pruned.weights()
    assert found.keys() == expected.keys()
    for path, value in found.items():
        np.testing.assert_allclose(value, expected[path], atol=2e-3, err_msg=path)
    output = f"body/block_1/{ATTENTION}/attention_output/kernel"
    assert not np.isin(found[output], encoder.weights()[output]).any()
    again = prune_width(encoder, TEXTS, 3, intermediate_dim=10, ridge=0.01)
    assert again.fingerprint == pruned.fingerprint != before == encoder.fingerprint


def test_with_all_heads_and_neurons_it_is_the_same_encoder(make):
    encoder = make(head_dim=None)
    pruned = prune_width(encoder, TEXTS)
    assert pruned.config == encoder.config
    for path, value in encoder.weights().items():
        np.testing.assert_allclose(pruned.weights()[path], value, atol=1e-4)
    np.testing.assert_allclose(pruned.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)


def test_units_that_never_change_go_first_and_the_bias_makes_up_for_them(make):
    encoder = make(num_layers=1)
    values = encoder.weights()
    block = "body/block_0"
    values[f"{block}/{ATTENTION}/value/kernel"][:, [0, 2]] = 0
    values[f"{block}/{ATTENTION}/value/bias"][[0, 2]] = 5  # a large contribution
    values[f"{block}/feedforward_intermediate_dense/kernel"][:, 1:9] = 0
    encoder.set_weights(values)
    pruned = prune_width(encoder, TEXTS, 2, intermediate_dim=NEURONS - 8)
    found = pruned.weights()
    query = f"{block}/{ATTENTION}/query/kernel"
    np.testing.assert_array_equal(found[query], values[query][:, [1, 3]])
    dense = f"{block}/feedforward_intermediate_dense/kernel"
    np.testing.assert_array_equal(
        found[dense], np.delete(values[dense], range(1, 9), 1)
    )
    np.testing.assert_allclose(pruned.encode(TEXTS), encoder.encode(TEXTS), atol=1e-4)


def test_layers_under_a_narrow_table_are_the_direct_solution(make):
    assistant = make(bottleneck_dim=None)
    student = make(bottleneck_dim=6, num_heads=2, intermediate_dim=10, max_length=16)
    expected, vectors = reference(assistant, 2, 10, ridge=0.01, student=student)
    refit_layers(student, assistant, TEXTS, ridge=0.01)
    np.testing.assert_allclose(student.encode(TEXTS), vectors, atol=1e-4)
    for path, value in student.weights().items():
        np.testing.assert_allclose(value, expected[path], atol=2e-3, err_msg=path)


def test_a_student_with_the_assistants_table_is_refitted_as_it_is_pruned(make):
    encoder = make()
    student = prune_width(encoder, TEXTS, 3, intermediate_dim=10, ridge=1e9)
    pruned = prune_width(encoder, TEXTS, 3, intermediate_dim=10, ridge=0.01)
    refit_layers(student, encoder, TEXTS, ridge=0.01)
    for path, value in pruned.weights().items():
        np.testing.assert_allclose(student.weights()[path], value, atol=1e-3)


def test_a_student_of_another_assistant_is_not_refitted(make):
    assistant = make()
    for fields in ({"num_layers": 1}, {"activation": "relu"}, {"hidden_dim": 20}):
        with pytest.raises(InputError, match=f"others: {next(iter(fields))}. Give the"):
            refit_layers(make(**fields), assistant, TEXTS)
    other = random_encoder(train_unigram(CORPUS, 300), **SHAPE)
    with pytest.raises(InputError, match="Received others: tokenizer"):
        refit_layers(other, assistant, TEXTS)
    with pytest.raises(InputError, match="each with weights of its own"):
        refit_layers(make(repeats=2), assistant, TEXTS)
    with pytest.raises(InputError, match="`texts` must have sentences"):
        refit_layers(assistant, assistant, [])


def test_what_cannot_be_pruned_is_refused(make):
    encoder = make(num_layers=1)
    for arguments, words in (
        ({"num_heads": 5}, "`num_heads` must be at most the encoder's, 4"),
        ({"num_heads": 0}, "`num_heads` must be at least 1"),
        ({"intermediate_dim": 25}, "`intermediate_dim` must be at most the encoder's"),
        ({"ridge": 0}, "`ridge` must be above 0"),
        ({"texts": []}, "`texts` must have sentences"),
        ({"texts": "a text"}, "`texts` must be a list of sentences"),
    ):
        with pytest.raises(InputError, match=words):
            prune_width(encoder, **{"texts": TEXTS} | arguments)
    for fields in ({"repeats": 2}, {"num_layers": 0}):
        with pytest.raises(InputError, match="layers, each with weights of its own"):
            prune_width(make(**fields), TEXTS)
    own = msd.Encoder.from_model(encoder.model, encoder.tokenizer)
    with pytest.raises(InputError, match="built by keras-msd"):
        prune_width(own, TEXTS)
    with pytest.raises(InputError, match="`encoder` must be an encoder with weights"):
        prune_width(object(), TEXTS)
