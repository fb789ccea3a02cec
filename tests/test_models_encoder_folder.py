"""Encoder folders in 8 and 4 bits: the numbers, what comes back, what is refused."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_msd.checks import InputError
from keras_msd.export.tensorflow_network import TensorFlowNetwork
from keras_msd.io.files import write_json
from keras_msd.light import LightEncoder
from keras_msd.load import load_encoder
from keras_msd.quantize import SCHEMES
from keras_msd.testing import tiny_encoder

pytestmark = pytest.mark.usefixtures("no_graphs")

WEIGHTS, CONFIG = "weights.safetensors", "encoder.json"
QUERY = "body/block_0/self_attention_layer/query/kernel"
JOINED = "body/block_0/self_attention_layer/attention_output/kernel"


def lively(tokenizer, **fields):
    """Return an encoder whose every weight is drawn, rows and outputs of many sizes."""
    encoder = tiny_encoder(tokenizer, **fields)
    random = np.random.default_rng(0)
    values = {}
    for path, value in encoder.weights().items():
        sizes = 10 ** random.uniform(
            -3, 3, (*value.shape[:1], *(1,) * (value.ndim - 1))
        )
        values[path] = (sizes * random.normal(size=value.shape)).astype(np.float32)
    values["embedding/word"][1] = 0  # the padding token's row
    encoder.set_weights(values)
    return encoder


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return lively(tokenizer, num_layers=1, bottleneck_dim=8, projection_dim=12)


@pytest.fixture
def folder(encoder, tmp_path):
    encoder.save(tmp_path / "e", quantize="int8")
    return tmp_path / "e"


def by_hand(path, stored):
    """Return a weight as the numbers and their scales say: one for each output."""
    numbers = stored[path].astype(np.float32)
    if f"{path}/scales" not in stored:
        return numbers
    scales = stored[f"{path}/scales"]
    if path == "embedding/word":
        return numbers * scales[:, None]
    of_heads = numbers.ndim == 3 and path != JOINED
    return numbers * (scales.reshape(numbers.shape[1:]) if of_heads else scales)


def test_the_numbers_are_those_of_the_formula(encoder, folder):
    record = json.loads((folder / CONFIG).read_text())
    assert (record["format"], record["quantize"]) == (2, "int8")
    stored = load_file(folder / WEIGHTS)
    weights, scaled = encoder.weights(), 0
    for path, value in weights.items():
        if f"{path}/scales" not in stored:
            np.testing.assert_array_equal(stored[path], value)
            assert path.endswith(("bias", "gamma", "beta", "position", "type"))
            continue
        scales = stored[f"{path}/scales"]
        assert (stored[path].dtype, scales.dtype) == (np.int8, np.float32)
        assert stored[path].shape == value.shape
        of_one = {"embedding/word": 1, JOINED: (0, 1)}.get(path, 0)
        largest = np.abs(value).max(axis=of_one).reshape(-1)
        expected = np.where(largest > 0, largest / np.float32(127), 1)
        np.testing.assert_array_equal(scales, expected.astype(np.float32))
        error = np.abs(by_hand(path, stored) - value)
        assert error.max() <= 0.5001 * scales.max()
        assert np.abs(stored[path].astype(int)).max() == 127
        scaled += 1
    assert scaled == 1 + 1 + 6 + 1  # table, bottleneck, body, projection
    assert len(stored) == len(weights) + scaled


def test_what_is_loaded_is_what_the_numbers_say(encoder, folder):
    stored, loaded = load_file(folder / WEIGHTS), load_encoder(folder)
    assert loaded.config == encoder.config
    for path, value in loaded.weights().items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, by_hand(path, stored))
    assert loaded.tokenizer.fingerprint == encoder.tokenizer.fingerprint


def test_saved_again_it_has_the_same_bytes(folder, tmp_path):
    load_encoder(folder).save(tmp_path / "again", quantize="int8")
    for name in (WEIGHTS, CONFIG):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_only_an_encoder_or_an_empty_folder_is_replaced(encoder, tmp_path):
    for _ in range(2):
        encoder.save(tmp_path / "own")
    (tmp_path / "empty").mkdir()
    encoder.save(tmp_path / "empty")
    for place in (tmp_path, tmp_path / "own" / WEIGHTS):
        with pytest.raises(InputError, match="exists and is not an encoder"):
            encoder.save(place)
    assert load_encoder(tmp_path / "own").fingerprint == encoder.fingerprint


def test_a_saved_model_stores_the_same_numbers(encoder, folder):
    stored, loaded = load_file(folder / WEIGHTS), load_encoder(folder)
    network = TensorFlowNetwork(loaded, SCHEMES["int8"])
    paths = [path for path in loaded.weights() if f"{path}/scales" in stored]
    paths.remove("embedding/word")  # its row of padding is zero there
    assert {it for it in loaded.weights() if it.endswith("/kernel")} < {*paths}
    for path in paths:
        weight = network.stored[path]
        numbers = stored[path].reshape(weight.values.shape[::-1])
        np.testing.assert_array_equal(weight.values, numbers.T)
        scales = stored[f"{path}/scales"]
        if path == QUERY:  # with the scale of attention in it
            scales = scales * (16 // loaded.config.num_heads) ** -0.5
        np.testing.assert_allclose(weight.scales[:, 0], scales, rtol=1e-6)


def changed(path, change):
    """Return a function that changes one of the stored tensors."""
    return lambda stored: stored.update({path: change(stored[path])})


SCALES = "projection/kernel/scales"


@pytest.mark.parametrize(
    ("tamper", "match"),
    [
        (changed(SCALES, lambda it: it * 0), f"{SCALES}.*above 0.*Received: 0 to"),
        (changed(SCALES, lambda it: it * np.nan), f"{SCALES}.*finite"),
        (changed(SCALES, lambda it: it * 0 + 3e38), "kernel.*finite.*3e\\+38"),
        (
            changed("embedding/word", lambda it: it.astype(np.uint8)),
            "embedding/word.*one of I8.*U8",
        ),
        (
            changed("embedding/word/scales", lambda it: it.astype(np.int32)),
            "scales.*BF16.*I32",
        ),
        (
            changed("projection/bias", lambda it: it.astype(np.int8)),
            "projection/bias.*BF16.*I8",
        ),
        (changed("embedding/word", lambda it: it[:-1]), "embedding/word.*shape"),
        (changed("embedding/word/scales", lambda it: it[:-1]), "word/scales.*shape"),
        (lambda stored: stored.pop(f"{JOINED}/scales"), "lacks.*output/kernel/scales"),
        (
            lambda stored: stored.update({"projection/bias/scales": np.ones(12)}),
            "unknown weight `projection/bias/scales`",
        ),
    ],
)
def test_what_is_tampered_with(folder, tamper, match):
    """There is no seal, so that nothing else refuses it."""
    stored = load_file(folder / WEIGHTS)
    tamper(stored)
    save_file(stored, folder / WEIGHTS)
    record = json.loads((folder / CONFIG).read_text())
    del record["seal"], record["files"]
    write_json(folder / CONFIG, record)
    with pytest.raises(InputError, match=f"(?s){match}"):
        load_encoder(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 3},
        {"quantize": None},
        {"quantize": ["int8"]},
    ],
)
def test_a_record_that_does_not_fit(folder, changes):
    record = json.loads((folder / CONFIG).read_text()) | changes
    write_json(folder / CONFIG, record)
    with pytest.raises(InputError, match="one of the formats"):
        load_encoder(folder)


@pytest.fixture
def four_bits(encoder, tmp_path):
    encoder.save(tmp_path / "four", quantize="int4_table")
    return tmp_path / "four"


def test_a_table_in_four_bits_is_what_its_bytes_say(encoder, folder, four_bits):
    stored, eight = load_file(four_bits / WEIGHTS), load_file(folder / WEIGHTS)
    record = json.loads((four_bits / CONFIG).read_text())
    assert (record["format"], record["quantize"]) == (3, "int4_table")
    table = encoder.weights()["embedding/word"]
    expected = np.empty_like(table)
    for row, (packed, scale) in enumerate(
        zip(stored["embedding/word"], stored["embedding/word/scales"], strict=True)
    ):
        low, high = packed.astype(int) % 16, packed.astype(int) // 16
        numbers = np.concatenate([low, high]) - 8
        expected[row] = numbers.astype(np.float32) * scale  # one scale: eight columns
    loaded = load_encoder(four_bits).weights()
    np.testing.assert_array_equal(loaded["embedding/word"], expected)
    error = np.linalg.norm(expected - table, axis=1)
    assert (error <= 0.25 * np.linalg.norm(table, axis=1)).all()
    for path in stored:
        if not path.startswith("embedding/word"):
            np.testing.assert_array_equal(stored[path], eight[path])


def test_kernels_in_four_bits_are_what_their_bytes_say(tmp_path):
    wide = tiny_encoder(hidden_dim=64, num_heads=2, bottleneck_dim=24, dropout=0.0)
    wide.save(tmp_path / "e", quantize="int4")
    stored, loaded = load_file(tmp_path / "e" / WEIGHTS), load_encoder(tmp_path / "e")
    weights = loaded.weights()
    path = "body/block_0/feedforward_intermediate_dense/kernel"
    numbers = stored[path].astype(int)
    numbers = np.concatenate([numbers % 16, numbers // 16], axis=1) - 8
    scales = np.repeat(stored[path + "/scales"].astype(np.float32), 32, axis=1)
    np.testing.assert_array_equal(weights[path], (numbers * scales).T)
    for path, exact in wide.weights().items():
        error = np.linalg.norm(weights[path] - exact)
        assert error <= 0.15 * np.linalg.norm(exact)
    # A kernel of 24 inputs has 8 bits; what is rounded already stays as it is.
    assert stored["embedding/projection"].dtype == np.int8
    loaded.save(tmp_path / "again", quantize="int4")
    again = load_encoder(tmp_path / "again").weights()
    for path, value in weights.items():
        np.testing.assert_allclose(again[path], value, rtol=1e-6)


def test_without_keras_four_bits_are_refused(tokenizer, tmp_path):
    words = tiny_encoder(tokenizer, num_layers=0, embedding_layer_norm=False)
    words.save(tmp_path / "e", quantize="int4_table")
    with pytest.raises(ValueError, match="4 bits: it needs keras-msd"):
        LightEncoder(tmp_path / "e")
