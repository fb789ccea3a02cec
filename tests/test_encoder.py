"""Encoders: encode, save, load, count."""

from pathlib import Path

import keras
import numpy as np
import pytest
from damages import cut

from keras_msd.checks import InputError
from keras_msd.load import load_encoder
from keras_msd.testing import tiny_encoder
from keras_msd.tokenizers.sentencepiece import train_unigram

TEXTS = ["the cat", "", "a dog runs in the park", "la casa " * 40, "é ü", "the cat"]


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return tiny_encoder(tokenizer)


def test_order_and_batching_do_not_matter(encoder):
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (6, 16)
    assert vectors.dtype == np.float32
    one_by_one = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(vectors, one_by_one, atol=1e-6)
    np.testing.assert_allclose(
        encoder.encode(iter(TEXTS), batch_size=2), vectors, atol=1e-6
    )
    np.testing.assert_array_equal(vectors[0], vectors[5])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert encoder.encode([]).shape == (0, 16)


def test_normalize_makes_unit_vectors(tokenizer):
    encoder = tiny_encoder(tokenizer, normalize=False)
    raw = encoder.encode(TEXTS)
    assert np.abs(np.linalg.norm(raw, axis=1) - 1).max() > 0.01
    unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(TEXTS, normalize=True), unit, atol=1e-6)


@pytest.mark.parametrize("size", [0, -1, float("nan")])
def test_batches_hold_a_sentence(encoder, size):
    with pytest.raises(InputError, match="`batch_size` must be (at least 1|a whole)"):
        encoder.encode(["a"], batch_size=size)


def test_values_that_training_holds_are_missed(tokenizer, monkeypatch):
    encoder = tiny_encoder(tokenizer)
    # What `fit` does under JAX; a variable then asks for an initializer that is gone.
    monkeypatch.setattr(encoder.model.weights[0], "_value", None)
    with pytest.raises(InputError, match="`self.model` first"):
        encoder.encode(["a"])


def test_saved_encoder_comes_back(encoder, tmp_path):
    encoder.save(tmp_path / "encoder")
    again = load_encoder(tmp_path / "encoder")
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    assert again.config == encoder.config
    assert again.fingerprint == encoder.fingerprint
    assert sorted(p.name for p in (tmp_path / "encoder").iterdir()) == [
        "encoder.json",
        "tokenizer",
        "weights.safetensors",
    ]
    first = (tmp_path / "encoder" / "weights.safetensors").read_bytes()
    again.save(tmp_path / "again")
    assert (tmp_path / "again" / "weights.safetensors").read_bytes() == first


@pytest.mark.parametrize(
    ("name", "how", "words"),
    [
        ("weights.safetensors", cut, "not a whole safetensors"),
        ("weights.safetensors", Path.unlink, "does not exist"),
        ("encoder.json", cut, "not valid JSON"),
        ("encoder.json", ('"dropout"', '"drop_out"'), "Did you mean `dropout`"),
        ("encoder.json", ('"dropout"', '"word_branch": true, "dropout"'), "bag-of"),
        ("encoder.json", ('"hidden_dim": 16', '"hidden_dim": 24'), "must have the sha"),
        ("encoder.json", ('"num_heads": 2', '"num_heads": 3'), "must divide"),
        ("encoder.json", ('"dropout"', '"head_dim": 0, "dropout"'), "greater than or"),
        ("encoder.json", ('"num_layers": 2', '"num_layers": 1'), "unknown weight"),
    ],
)
def test_a_damaged_folder_says_what_is_wrong(encoder, tmp_path, name, how, words):
    encoder.save(tmp_path / "e")
    path = tmp_path / "e" / name
    if callable(how):
        how(path)
    else:
        path.write_text(path.read_text().replace(*how))
    with pytest.raises(InputError, match=words):
        load_encoder(tmp_path / "e")


def test_an_encoder_with_another_configuration(encoder):
    other = encoder.with_config(pooling="max", repeats=2)
    assert other.config == encoder.config.model_copy(
        update={"pooling": "max", "repeats": 2}
    )
    assert other.tokenizer is encoder.tokenizer and other.max_length == 32
    before = encoder.fingerprint
    other.set_weights({path: 0 * value for path, value in other.weights().items()})
    assert encoder.fingerprint == before
    small = train_unigram(TEXTS, 24)
    other = encoder.with_config(small)
    assert other.config.vocabulary_size == 24 == len(other.weights()["embedding/word"])
    with pytest.raises(InputError, match="with_config: Unknown key `pools`"):
        encoder.with_config(pools="max")


def test_the_network_is_a_keras_model_like_any_other(tokenizer, tmp_path):
    encoder = tiny_encoder(tokenizer, bottleneck_dim=8)
    encoder.model.save(tmp_path / "network.keras")
    batch = {"token_ids": np.array([[2, 5, 6, 1]]), "padding_mask": np.ones((1, 4))}
    wanted = encoder.model(batch)
    loaded = keras.models.load_model(tmp_path / "network.keras")
    np.testing.assert_allclose(loaded(batch), wanted, atol=1e-6)
    clone = keras.models.clone_model(encoder.model)
    assert [w.path for w in clone.weights] == [w.path for w in encoder.model.weights]
    clone.set_weights(encoder.model.get_weights())
    np.testing.assert_allclose(clone(batch), wanted, atol=1e-6)


def test_embedding_guide_is_the_pooled_block(encoder):
    guide = encoder.embedding_guide()
    assert guide.dim == 16
    weights = encoder.weights()
    ids = encoder.tokenizer.encode([TEXTS[2]], 32)[0]
    total = weights["embedding/word"][ids] + weights["embedding/type"][0]
    total += weights["embedding/position"][: len(ids)]
    centred = total - total.mean(-1, keepdims=True)
    normal = centred / np.sqrt(total.var(-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(guide.encode(TEXTS)[2], normal.mean(axis=0), atol=1e-4)
    tokens = encoder.embedding_guide(per_token=True)
    row = tokens.encode(TEXTS)[2].reshape(32, 16)
    np.testing.assert_allclose(row[: len(ids)], normal, atol=1e-4)
    assert not row[len(ids) :].any()
    assert tokens.fingerprint != guide.fingerprint
    np.testing.assert_array_equal(guide.encode(iter(TEXTS)), guide.encode(TEXTS))
    with pytest.raises(InputError, match="`texts` must"):
        guide.encode("one text")
