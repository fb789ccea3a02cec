"""Thin, deep students: the paper's sizes, counted on built models, and the pooler."""

import csv
from pathlib import Path

import numpy as np
import pytest
from without_values import without_values

from keras_msd.checks import InputError
from keras_msd.load import load_encoder
from keras_msd.models.student import ROWS, thin_deep

pytestmark = pytest.mark.usefixtures("no_graphs")

VOCABULARY = 501_153
GOLDEN = Path(__file__).parent / "golden" / "lealla_sizes.tsv"
SIZES = list(csv.DictReader(GOLDEN.read_text().splitlines(), delimiter="\t"))
NAMES = {"LaBSE": 0, "LEALLA-large": 6, "LEALLA-base": 7, "LEALLA-small": 8}
TEXTS = ["The cat sleeps.", "", "A dog runs in the park and we drink coffee."]


def parts(encoder):
    """Add up the parameters of the parts that the table has."""
    counts = dict.fromkeys(("word", "pos_type_ln", "transformer_layers", "pooler"), 0)
    for weight in encoder.model.weights:
        layer, name = weight.path.split("/")[:2]
        key = {"body": "transformer_layers", "projection": "pooler"}.get(
            layer, "word" if name == "word" else "pos_type_ln"
        )
        counts[key] += int(np.prod(weight.shape))
    return counts


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size["row"])
def test_parameters_of_every_row(size, tokenizer):
    layers, row = int(size["layers"]), int(size["row"])
    fields = {"vocabulary_size": VOCABULARY, "num_layers": 1}  # all layers are alike
    with without_values():
        counts = parts(thin_deep(tokenizer, row, **fields))
    counts["transformer_layers"] *= layers
    assert {key: str(count) for key, count in counts.items()} == {
        key: size[key] for key in counts
    }
    total, layers = sum(counts.values()), counts["transformer_layers"]
    assert total == int(size["total"])
    assert abs(total / 1e6 - float(size["printed_p_m"])) < 0.7
    assert abs(layers / 1e6 - float(size["printed_pe_m"])) < 0.7
    shape = [size[key] for key in ("layers", "H", "F", "heads")]
    assert list(map(str, ROWS[row])) == shape


def test_counting_without_values_is_counting_with_them(tokenizer):
    with without_values():
        empty = thin_deep(tokenizer, 9)
    full = thin_deep(tokenizer, 9)
    assert parts(empty) == parts(full)
    assert full.num_parameters == full.model.count_params()
    vocabulary = VOCABULARY - tokenizer.vocabulary_size
    assert full.num_parameters + 64 * vocabulary == int(SIZES[9]["total"])


def test_names_and_the_default_row(tokenizer):
    assert {name: ROWS[name] for name in NAMES} == {
        name: ROWS[row] for name, row in NAMES.items()
    }
    assert set(ROWS) == {*range(13), *NAMES}
    with without_values():
        config = thin_deep(tokenizer).config
    assert (config.num_layers, config.hidden_dim, config.dim) == (24, 128, 128)
    assert (config.pooling, config.normalize) == ("cls", True)
    assert (config.max_positions, config.max_length, config.num_types) == (512, 128, 2)


@pytest.mark.parametrize(("width", "heads"), [(96, 12), (128, 8)])
def test_shapes_of_no_row_follow_the_papers_rule(width, heads, tokenizer):
    with without_values():
        config = thin_deep(tokenizer, None, hidden_dim=width).config
    shape = (config.num_layers, config.intermediate_dim, config.num_heads, config.dim)
    assert shape == (24, 4 * width, heads, width)


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


def test_fields_take_the_place_of_the_rows(tokenizer):
    with without_values():
        wide = thin_deep(tokenizer, "LEALLA-small", projection_dim=768, num_layers=3)
        low = thin_deep(tokenizer, 8, hidden_dim=32, bottleneck_dim=4, max_length=64)
    assert (wide.dim, wide.config.num_layers, wide.config.hidden_dim) == (768, 3, 128)
    config = low.config
    shape = (low.dim, config.intermediate_dim, config.bottleneck_dim, low.max_length)
    assert shape == (32, 512, 4, 64)


@pytest.mark.parametrize(
    ("row", "fields", "words"),
    [
        ("LEALLA-smal", {}, "Did you mean `LEALLA-small`"),
        (13, {}, "row=13"),
        (None, {}, "`hidden_dim` is missing"),
        (None, {"hidden_dim": "wide"}, "`hidden_dim`.*'wide'"),
        (None, {"hidden_dim": 20}, "num_heads=8, hidden_dim=20"),
        (8, {"layers": 3}, "Unknown key `layers`. Did you mean `num_layers`"),
    ],
)
def test_what_cannot_be_built_is_refused(row, fields, words, tokenizer):
    with pytest.raises(InputError, match=words):
        thin_deep(tokenizer, row, **fields)
