import hashlib
import shutil
import sys
from collections import Counter

import numpy as np
import pytest
from onnx_encoder import KINDS, TEXTS, cosines, random_encoder, run_alone
from tokenizer_files import write_byte_pairs

from keras_msd.arrays import pad_batch
from keras_msd.checks import InputError
from keras_msd.export import export, load_artefact, loaders_folder, read_card
from keras_msd.export import onnx as exporter
from keras_msd.export.onnx import write_ids
from keras_msd.export.onnx_files import load_ids
from keras_msd.export.portable import describe
from keras_msd.models.encoder import Encoder
from keras_msd.quantize import SCHEMES
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return random_encoder(tokenizer)


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "art"
    return export(encoder, path, format="onnx", languages=["de", "en"])


def written(encoder, folder, quantize=None):
    write_ids(encoder, folder, quantize)
    return folder, onnx.load(folder / "model.onnx")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_network(kind, tokenizer, tmp_path):
    encoder = random_encoder(tokenizer, **KINDS[kind])
    write_ids(encoder, tmp_path / "a")
    found, expected = load_ids(tmp_path / "a")(TEXTS), encoder.encode(TEXTS)
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert np.linalg.norm(expected[0] - expected[3]) > 0.01  # they could differ


@pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")
def test_keras_writes_a_network_by_tf2onnx(tokenizer, tmp_path):
    """For other networks and older runtimes; its vectors are those of our writer."""
    pytest.importorskip("tf2onnx")
    encoder = random_encoder(tokenizer, repeats=1)
    rows = encoder.tokenizer.encode(TEXTS, encoder.max_length)
    batch = pad_batch(rows, encoder.tokenizer.pad_id, multiple=1)
    expected = np.asarray(encoder.model(batch))
    path = str(tmp_path / "keras.onnx")
    encoder.model.export(path, format="onnx", opset_version=15, verbose=False)
    write_ids(encoder, tmp_path / "ours")
    for file in (path, tmp_path / "ours" / "model.onnx"):
        found = onnxruntime.InferenceSession(file).run(None, batch)[0]
        assert cosines(found, expected).min() > 1 - 1e-6


def test_interface(encoder, artefact):
    session = onnxruntime.InferenceSession(artefact / "model.onnx")
    inputs = {one.name: (one.type, one.shape) for one in session.get_inputs()}
    ids = ("tensor(int32)", ["batch", "length"])
    assert inputs == {"token_ids": ids, "padding_mask": ids}
    (output,) = session.get_outputs()
    assert (output.name, output.type) == ("embedding", "tensor(float)")
    assert output.shape == ["batch", encoder.dim]
    rows = encoder.tokenizer.encode(TEXTS, encoder.max_length)
    expected = encoder.encode(TEXTS)
    for multiple in (1, 32):  # more padding than is needed changes nothing
        batch = pad_batch(rows, encoder.tokenizer.pad_id, multiple=multiple)
        found = session.run(["embedding"], batch)[0]
        np.testing.assert_allclose(found, expected, atol=1e-6)
    model = onnx.load(artefact / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 23)]
    metadata = session.get_modelmeta().custom_metadata_map
    assert metadata["tokenizer"].encode() == describe(encoder.tokenizer, 32)


def test_a_padding_id_among_real_tokens(encoder, artefact):
    random = np.random.default_rng(1)
    ids = random.integers(0, encoder.config.vocabulary_size, (4, 9), np.int32)
    ids[:, 2] = encoder.tokenizer.pad_id
    batch = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    batch["padding_mask"][1, 5:] = 0
    session = onnxruntime.InferenceSession(artefact / "model.onnx")
    found = session.run(["embedding"], batch)[0]
    expected = encoder.model.predict_on_batch(batch)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_card(encoder, artefact, monkeypatch):
    card = read_card(artefact)
    assert card["parity"]["min_cosine"] > 0.99999 and card["opset"] == 23
    assert card["min_onnxruntime"] == "1.23"
    assert {"Attention", "Gelu", "LayerNormalization"} <= set(card["operators"])
    assert set(card["libraries"]) == {"onnx", "onnxruntime"}
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "portable_tokenizer", raising=False)
    scope = {}
    exec(card["how_to_load"].replace("FOLDER", str(artefact)), scope)
    np.testing.assert_allclose(
        scope["vectors"], encoder.encode(["A sentence."]), atol=1e-6
    )


def test_an_artefact_finds_the_same_neighbours(encoder, artefact):
    loaded = load_artefact(artefact, threads=1)
    np.testing.assert_allclose(
        loaded.encode(TEXTS, batch_size=2), encoder.encode(TEXTS), atol=1e-6
    )


def contents(model):
    return Counter(
        hashlib.sha256(one.raw_data + str(list(one.dims)).encode()).hexdigest()
        for one in model.graph.initializer
    )


@pytest.fixture(scope="module")
def repeated(tokenizer):
    """Return an encoder by how often its unit is run."""
    fields = {"num_layers": 2, "hidden_dim": 32, "intermediate_dim": 64}
    return {n: random_encoder(tokenizer, repeats=n, **fields) for n in (1, 4)}


@pytest.mark.parametrize("quantize", SCHEMES)
def test_each_weight_is_stored_once(quantize, repeated, tmp_path):
    sizes, tensors = [], []
    for repeats, encoder in repeated.items():
        _, model = written(encoder, tmp_path / f"{repeats}", quantize)
        sizes.append((tmp_path / f"{repeats}" / "model.onnx").stat().st_size)
        tensors.append(contents(model))
        assert set(tensors[-1].values()) == {1}
    assert tensors[0] == tensors[1]
    assert max(sizes) <= 1.03 * min(sizes) + 65536
    stored = sum(len(one.raw_data) for one in model.graph.initializer)
    width = {None: 4, "fp16": 2}.get(quantize)
    if width:  # the type's row is added to the positions; the graph has constants
        assert abs(stored - width * encoder.num_parameters) < 400


def test_bytes_of_an_int8_file(tokenizer, tmp_path):
    encoder = random_encoder(
        tokenizer,
        num_layers=2,
        bottleneck_dim=64,
        hidden_dim=256,
        num_heads=4,
        intermediate_dim=1024,
        max_length=16,
    )
    write_ids(encoder, tmp_path / "a", "int8")
    size = (tmp_path / "a" / "model.onnx").stat().st_size
    parameters = encoder.num_parameters
    assert size <= 1.1 * parameters + len(describe(encoder.tokenizer, 16))


@pytest.mark.parametrize(
    "quantize,least",
    [("fp16", 0.99999), ("int8", 0.998), ("int4_table", 0.9), ("int4", 0.7)],
)
def test_quantised_vectors(quantize, least, tokenizer, tmp_path):
    encoder = random_encoder(
        tokenizer, hidden_dim=64, num_heads=4, intermediate_dim=128, bottleneck_dim=32
    )
    write_ids(encoder, tmp_path / "a", quantize)
    run, expected = load_ids(tmp_path / "a"), encoder.encode(TEXTS)
    found = run(TEXTS)
    cosine = cosines(found, expected)
    assert least < cosine.min() < 1 - 1e-9
    # A vector does not depend on its batch.
    alone = np.concatenate([run([text]) for text in TEXTS])
    np.testing.assert_allclose(found, alone, atol=1e-5)


def test_the_same_encoder_gives_the_same_bytes(tokenizer, tmp_path):
    for name in ("a", "b"):
        write_ids(random_encoder(tokenizer), tmp_path / name, "int8")
    one, other = ((tmp_path / n / "model.onnx").read_bytes() for n in "ab")
    assert one == other


def test_files_that_are_no_such_model(tmp_path):
    path = tmp_path / "model.onnx"
    for content, message in (  # the second: a version, no more
        (b"\xff" * 99, "is no whole ONNX model"),
        (b"\x08\x07", "onnxruntime cannot load"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            load_ids(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"model `.*model\.onnx` does not exist"):
        load_ids(tmp_path)
    with pytest.raises(InputError, match="artefact `.*none` does not exist"):
        load_ids(tmp_path / "none")


def test_another_model_is_refused(artefact, tmp_path):
    model = onnx.load(artefact / "model.onnx")
    del model.metadata_props[:]
    exporter.save(model, tmp_path / "a")
    with pytest.raises(InputError, match="carry its tokenizer as the metadata"):
        load_ids(tmp_path / "a")
    for node in model.graph.node:
        node.input[:] = ["ids" if one == "token_ids" else one for one in node.input]
    [one for one in model.graph.input if one.name == "token_ids"][0].name = "ids"
    exporter.save(model, tmp_path / "b")
    with pytest.raises(InputError, match="must take padding_mask, token_ids"):
        load_ids(tmp_path / "b")


def test_bad_requests(encoder, artefact, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="`threads` must be at least 1"):
        load_ids(artefact, threads=0)
    write_byte_pairs(tmp_path)
    pairs = read_checkpoint_tokenizer(tmp_path)
    with pytest.raises(InputError, match="tokenizer_json"):
        write_ids(random_encoder(pairs), tmp_path / "a")
    config = encoder.config.model_copy(update={"pooling": "median"})
    with pytest.raises(InputError, match="`pooling` must be one of 'mean', 'cls', 'm"):
        write_ids(Encoder(encoder.model, encoder.tokenizer, config), tmp_path)
    monkeypatch.setattr(exporter, "LARGEST", 100)
    with pytest.raises(InputError, match="smaller than 100 bytes. Received: weights"):
        write_ids(encoder, tmp_path / "a")
    for module in ("onnx", "onnxruntime"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(InputError, match=rf'package `{module}`.*"\.\[onnx\]"'):
                write_ids(encoder, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_the_script_needs_the_runtime_alone(encoder, artefact, tmp_path):
    lines = ["The cat sleeps on the chair.", "A dog runs.", "The house is very old."]
    (tmp_path / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    script = loaders_folder() / "load_onnx.py"
    asked = ("--query", TEXTS[0], "--sentences", tmp_path / "lines.txt", "--top", 2)
    blocked = ("keras", "keras_msd", "tensorflow", "onnx", "onnxruntime_extensions")
    done = run_alone(script, artefact, *asked, blocked=blocked)
    assert done.returncode == 0, done.stderr
    vectors = encoder.encode([*lines, TEXTS[0]], normalize=True)
    cosine = vectors[:3] @ vectors[3]
    expected = [f"{cosine[row]:.4f}\t{lines[row]}" for row in np.argsort(-cosine)[:2]]
    assert done.stdout.splitlines() == expected
    cut = shutil.copytree(artefact, tmp_path / "cut") / "model.onnx"
    cut.write_bytes(cut.read_bytes()[:-9])
    for wrong, message in ((cut, "checksum"), (tmp_path / "none", "does not exist")):
        done = run_alone(script, wrong, *asked, blocked=blocked)
        assert done.returncode == 2 and message in done.stderr
