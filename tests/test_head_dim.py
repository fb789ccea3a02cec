"""Encoders whose heads are not as wide as the hidden width divided by their number."""

import numpy as np
import pytest
from random_encoder import TEXTS, WITHOUT_NUL, cosines, random_encoder
from tokenizer_texts import CORPUS

import keras_msd as msd
from keras_msd.export import FORMATS
from keras_msd.tokenizers.sentencepiece import train_unigram

pytestmark = pytest.mark.usefixtures("no_graphs")

# Three heads of 10 beside a width of 16, and a unit that is repeated.
THIN = {"num_heads": 3, "head_dim": 10, "num_layers": 2, "repeats": 2}
RUNTIMES = {
    "litert": "ai_edge_litert",
    "onnx": "onnxruntime",
}
LEAST = {None: 1 - 1e-6, "int8": 0.98}  # cosine of any vector


@pytest.fixture(scope="module")
def encoder():
    return random_encoder(train_unigram(CORPUS, 400), **THIN)


@pytest.mark.parametrize(
    ("activation", "normalize_first"),
    [("gelu_erf", False), ("gelu_tanh", True)],
)
def test_with_the_usual_dimension_it_is_the_usual_network(
    tokenizer, activation, normalize_first
):
    fields = {"activation": activation, "normalize_first": normalize_first}
    usual = random_encoder(
        tokenizer, **THIN | fields | {"num_heads": 4, "head_dim": None}
    )
    own = usual.with_config(head_dim=4)
    assert "keras_hub" in type(usual.model.get_layer("body").blocks[0]).__module__
    assert "keras_hub" not in type(own.model.get_layer("body").blocks[0]).__module__
    own.set_weights(usual.weights())
    np.testing.assert_allclose(own.encode(TEXTS), usual.encode(TEXTS), atol=1e-6)


def test_attention_is_the_formula(encoder):
    """One layer in NumPy, whose heads have ten dimensions each."""
    block = encoder.model.get_layer("body").blocks[0]
    weights = {
        weight.path.split("block_0/")[1]: weight.numpy() for weight in block.weights
    }
    hidden = np.random.default_rng(1).normal(size=(2, 5, 16)).astype("float32")

    def projected(name):
        kernel = weights[f"self_attention_layer/{name}/kernel"]
        bias = weights[f"self_attention_layer/{name}/bias"]
        return np.einsum("blh,hnd->bnld", hidden, kernel) + bias[:, None]

    query, key, value = (projected(name) for name in ("query", "key", "value"))
    scores = np.exp(query @ key.transpose(0, 1, 3, 2) / np.sqrt(10))
    mixed = scores / scores.sum(axis=-1, keepdims=True) @ value
    kernel = weights["self_attention_layer/attention_output/kernel"]
    wanted = np.einsum("bnld,ndh->blh", mixed, kernel)
    wanted += weights["self_attention_layer/attention_output/bias"]
    found = block.attention(hidden, hidden)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_it_is_copied_into_students(encoder):
    whole = random_encoder(encoder.tokenizer, **THIN | {"repeats": 1})
    student = msd.build_student(
        whole, unit_layers=1, bottleneck_dim=8, unit_from="last"
    )
    assert student.config.head_dim == 10
    for path, value in student.weights().items():
        if path.startswith("body/"):
            expected = whole.weights()[path.replace("block_0", "block_1")]
            np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(
    ("format", "quantize"),
    [
        ("onnx", "int8"),
        ("litert", None),
    ],
)
def test_every_runtime_gives_its_vectors(format, quantize, encoder, tmp_path):
    pytest.importorskip(RUNTIMES[format])
    FORMATS[format].write(encoder, tmp_path / "made", quantize)
    found = FORMATS[format].load(tmp_path / "made")(WITHOUT_NUL)
    expected = encoder.encode(WITHOUT_NUL)
    assert cosines(found, expected).min() > LEAST[quantize]
    assert np.ptp(expected, axis=0).max() > 0.1  # they could differ
