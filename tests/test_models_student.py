"""Thin, deep students: the paper's sizes, and the pooler."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.load import load_encoder
from keras_msd.models import student
from keras_msd.models.network import EncoderConfig, weight_shapes
from keras_msd.models.student import ROWS, merge_projection, thin_deep
from keras_msd.testing import tiny_encoder

pytestmark = pytest.mark.usefixtures("no_graphs")

VOCABULARY = 501_153
GOLDEN = Path(__file__).parent / "golden" / "lealla_sizes.tsv"
SIZES = list(csv.DictReader(GOLDEN.read_text().splitlines(), delimiter="\t"))
NAMES = {"LaBSE": 0, "LEALLA-large": 6, "LEALLA-base": 7, "LEALLA-small": 8}
TEXTS = ["The cat sleeps.", "", "A dog runs in the park and we drink coffee."]


def test_the_vector_is_the_pooler_on_the_start_token(tokenizer, tmp_path):
    fields = {"num_layers": 2, "hidden_dim": 16, "num_heads": 2, "dropout": 0.0}
    encoder = thin_deep(tokenizer, None, **fields)
    random = np.random.default_rng(1)
    for weight in encoder.model.weights:
        weight.assign(random.normal(0, 0.3, weight.shape))
    found = encoder.encode(TEXTS)

    weights = encoder.weights()
    for row, text in enumerate(TEXTS):
        ids = np.array(tokenizer.encode([text]), np.int32)
        hidden = encoder.model.get_layer("embedding")(ids)
        hidden = encoder.model.get_layer("body")(hidden, np.ones_like(ids))
        start = np.asarray(hidden)[0, 0]
        pooled = np.tanh(
            start @ weights["projection/kernel"] + weights["projection/bias"]
        )
        wanted = pooled / np.linalg.norm(pooled)
        np.testing.assert_allclose(found[row], wanted, atol=1e-6)

    encoder.save(tmp_path / "thin")
    np.testing.assert_array_equal(load_encoder(tmp_path / "thin").encode(TEXTS), found)


@pytest.fixture
def config_of(tokenizer, monkeypatch):
    """Return `thin_deep` up to the configuration: no network is built."""

    def configure(tokenizer, **fields):
        rows = {"vocabulary_size": tokenizer.vocabulary_size, "pad_id": 1}
        return EncoderConfig.from_dict(rows | fields)

    monkeypatch.setattr(student, "new_encoder", configure)
    return lambda *given, **fields: thin_deep(tokenizer, *given, **fields)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size["row"])
def test_parameters_of_every_row(size, config_of):
    """test_models_network.py shows that built networks have these shapes."""
    config = config_of(int(size["row"]), vocabulary_size=VOCABULARY)
    counts = dict.fromkeys(("word", "pos_type_ln", "transformer_layers", "pooler"), 0)
    for path, shape in weight_shapes(config).items():
        layer, name = path.split("/")[:2]
        key = {"body": "transformer_layers", "projection": "pooler"}.get(
            layer, "word" if name == "word" else "pos_type_ln"
        )
        counts[key] += math.prod(shape)
    assert {key: str(count) for key, count in counts.items()} == {
        key: size[key] for key in counts
    }
    total, layers = sum(counts.values()), counts["transformer_layers"]
    assert total == int(size["total"])
    assert abs(total / 1e6 - float(size["printed_p_m"])) < 0.7
    assert abs(layers / 1e6 - float(size["printed_pe_m"])) < 0.7
    shape = [size[key] for key in ("layers", "H", "F", "heads")]
    assert list(map(str, ROWS[int(size["row"])])) == shape


def test_names_and_the_default_row(config_of):
    assert {name: ROWS[name] for name in NAMES} == {
        name: ROWS[row] for name, row in NAMES.items()
    }
    config = config_of()
    assert (config.num_layers, config.hidden_dim, config.dim) == (24, 128, 128)
    assert (config.pooling, config.normalize) == ("cls", True)
    assert (config.max_positions, config.max_length, config.num_types) == (512, 128, 2)


@pytest.mark.parametrize(("width", "heads"), [(96, 12), (128, 8)])
def test_shapes_of_no_row_follow_the_papers_rule(width, heads, config_of):
    config = config_of(None, hidden_dim=width)
    shape = (config.num_layers, config.intermediate_dim, config.num_heads, config.dim)
    assert shape == (24, 4 * width, heads, width)


def test_fields_take_the_place_of_the_rows(config_of):
    wide = config_of("LEALLA-small", projection_dim=768, num_layers=3)
    assert (wide.dim, wide.num_layers, wide.hidden_dim) == (768, 3, 128)
    low = config_of(8, hidden_dim=32, bottleneck_dim=4, max_length=64)
    shape = (low.dim, low.intermediate_dim, low.bottleneck_dim, low.max_length)
    assert shape == (32, 512, 4, 64)


@pytest.mark.parametrize(
    ("row", "fields", "words"),
    [
        ("LEALLA-smal", {}, "Did you mean `LEALLA-small`"),
        (13, {}, "row=13"),
        (None, {}, "`hidden_dim` is missing"),
        (None, {"hidden_dim": "wide"}, "`hidden_dim`.*'wide'"),
        (None, {"hidden_dim": 20}, "num_heads=8, hidden_dim=20"),
    ],
)
def test_what_cannot_be_built_is_refused(row, fields, words, tokenizer):
    with pytest.raises(InputError, match=words):
        thin_deep(tokenizer, row, **fields)


@pytest.mark.parametrize("normalize", [True, False])
def test_an_encoder_without_a_projection_gets_one(normalize):
    encoder = tiny_encoder(normalize=normalize)
    matrix = np.random.default_rng(0).normal(size=(encoder.dim, 5)).astype("float32")
    made = merge_projection(encoder, matrix)
    texts = ["The cat sleeps.", "A dog runs in the park."]
    expected = encoder.encode(texts) @ matrix
    if normalize:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(made.encode(texts), expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(InputError, match="'projection_dim': 4"):
        merge_projection(encoder, matrix[:4])
    with pytest.raises(InputError, match="can only be merged"):
        merge_projection(encoder.model, matrix)
