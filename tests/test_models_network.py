"""Networks: shapes known beforehand, parameter counts of the paper's encoders.

The counts are of the shapes, which are those of built networks.
"""

import csv
import math
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_msd.models.network import EncoderConfig, build_model, weight_shapes
from keras_msd.testing import tiny_encoder


@pytest.fixture
def accelerator(monkeypatch):
    """Let Keras see a GPU, which makes it choose XLA by itself."""
    import tensorflow as tf

    devices = [SimpleNamespace(device_type="GPU", name="/physical_device:GPU:0")]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _=None: devices)
    assert keras.Model().jit_compile


def test_no_length_is_compiled_anew_unless_asked(accelerator, tokenizer):
    encoder = tiny_encoder(tokenizer)
    assert not encoder.model.jit_compile
    assert not encoder.embedding_guide().model.jit_compile


@pytest.mark.parametrize("guide", [False, True])
def test_encode_traces_a_network_once(tokenizer, monkeypatch, guide):
    encoder = tiny_encoder(tokenizer)
    if guide:
        encoder = encoder.embedding_guide()
    traced, call = [], type(encoder.model).call

    def counted(model, *args, **kwargs):
        traced.append(model)
        return call(model, *args, **kwargs)

    monkeypatch.setattr(type(encoder.model), "call", counted)
    for texts in (["a cat"], ["a", "b"], ["a dog and a cat"] * 300, [""]):
        assert len(encoder.encode(texts)) == len(texts)
    assert traced == [encoder.model]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"bottleneck_dim": 4, "projection_dim": 6},
        {"num_layers": 0, "embedding_layer_norm": False},
        {"projection_dim": 5, "projection_bias": False, "num_types": 2},
        {"max_positions": 40, "position_offset": 2, "repeats": 3, "num_layers": 2},
        {"normalize_first": True, "zero_residuals": True, "normalize": False},
        {"num_heads": 3, "head_dim": 10},
    ],
)
def test_shapes_are_known_before_the_network_is_built(fields, tokenizer):
    config = tiny_encoder(tokenizer, num_layers=1).with_config(**fields).config
    built = {w.path: tuple(w.shape) for w in build_model(config).weights}
    assert weight_shapes(config) == built


SIZES = list(
    csv.DictReader(
        (Path(__file__).parent / "golden" / "msd_sizes.tsv").read_text().splitlines(),
        delimiter="\t",
    )
)


def _counts(**fields):
    """Add up the parameters below each layer name, and of each embedding weight."""
    counts = {}
    for path, shape in weight_shapes(EncoderConfig(**fields)).items():
        for name in (path.split("/")[0], "/".join(path.split("/")[:2])):
            counts[name] = counts.get(name, 0) + math.prod(shape)
    return counts


@pytest.mark.parametrize(
    "row",
    [r for r in SIZES if r["part"] == "embedding" and r["counted"][-2:] == "LN"],
    ids=lambda r: r["row"],
)
def test_embedding_sizes_of_the_paper(row):
    number = {key: int(row[key] or 0) for key in "VHPTB"}
    parts = _counts(
        vocabulary_size=number["V"],
        hidden_dim=number["H"],
        num_layers=0,
        num_heads=1,
        intermediate_dim=1,
        max_length=number["P"],
        num_types=max(number["T"], 1),
        bottleneck_dim=number["B"] or None,
        pad_id=0,
    )
    words = parts["embedding/word"] + parts.get("embedding/projection", 0)
    types = parts["embedding/type"] if number["T"] else 0
    sums = np.cumsum(
        [words, parts["embedding/position"], types, parts["embedding/layer_norm"]]
    )
    same = [r for r in SIZES if r["row"] == row["row"] and r["part"] == "embedding"]
    assert [int(r["exact"]) for r in same] == sums.tolist()
    # The paper's cells for MiniLM's bottleneck leave positions out.
    printed_for = sums[0] if row["row"].startswith("MiniLM bs") else sums[-1]
    assert abs(printed_for / 1e6 - float(row["printed_m"])) < 0.01


@pytest.mark.parametrize(
    "row", [r for r in SIZES if r["part"] == "encoder"], ids=lambda r: r["row"]
)
def test_encoder_sizes_of_the_paper(row):
    unit, hidden = int(row["layers"]), int(row["H"])
    exact = _counts(
        vocabulary_size=2,
        hidden_dim=hidden,
        num_layers=unit,
        repeats=12 // unit,
        num_heads=12,
        intermediate_dim=int(row["F"]),
        pad_id=0,
    )["body"]
    assert exact == int(row["exact"])
    if row["row"] != "DistilmBERT 6 layers":  # its printed 46.10 is not derivable
        assert abs(exact / 1e6 - float(row["printed_m"])) < 0.01
