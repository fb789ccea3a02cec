"""What tf2onnx converts: encoders for old runtimes, other networks, and an oracle."""

import sys

import keras
import numpy as np
import pytest
from onnx_encoder import KINDS, TEXTS, cosines, random_encoder, run_alone

import keras_msd
from keras_msd import cli
from keras_msd.arrays import pad_batch
from keras_msd.checks import InputError
from keras_msd.export import export, load_artefact, loaders_folder, read_card
from keras_msd.export.onnx import convert_network
from keras_msd.export.onnx import files as onnx_files
from keras_msd.export.onnx.exporter import load_ids, write_ids
from keras_msd.export.onnx.files import RUNTIMES
from keras_msd.export.portable import describe
from keras_msd.layers import masked_mean
from keras_msd.stages.imitation import TeachAssistant

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture
def without_optimizer(monkeypatch):
    """Leave out what takes most of a conversion and changes no number."""
    import tf2onnx.optimizer

    def first(graph, *_, **__):
        return graph

    monkeypatch.setattr(tf2onnx.optimizer, "optimize_graph", first)


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return random_encoder(tokenizer, repeats=1)


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "art"
    return encoder.export(path, format="onnx", opset=15, languages=["de", "en"])


@pytest.fixture(scope="module")
def closed_form(tokenizer):
    """Return an encoder that is quickly converted."""
    return random_encoder(tokenizer, num_layers=0, repeats=1)


def batch_of(encoder):
    rows = encoder.tokenizer.encode(TEXTS, encoder.max_length)
    return pad_batch(rows, encoder.tokenizer.pad_id, multiple=1)


@pytest.mark.parametrize("kind", KINDS)
def test_our_writer_and_tf2onnx_give_the_same_vectors(
    kind, tokenizer, tmp_path, without_optimizer
):
    encoder = random_encoder(tokenizer, **KINDS[kind])
    batch, vectors = batch_of(encoder), []
    for opset in (23, 15):
        write_ids(encoder, tmp_path / f"{opset}", opset=opset)
        session = onnxruntime.InferenceSession(tmp_path / f"{opset}" / "model.onnx")
        vectors.append(session.run(["embedding"], batch)[0])
    ours, oracle = vectors
    assert np.linalg.norm(ours[0] - ours[3]) > 0.01  # they could differ
    assert cosines(ours, oracle).min() > 1 - 1e-6
    np.testing.assert_allclose(ours, oracle, atol=1e-5 * np.abs(oracle).max())


def test_an_artefact_for_old_runtimes(encoder, artefact):
    model = onnx.load(artefact / "model.onnx")
    assert model.opset_import[0].version == 15 and model.ir_version <= 8
    session = onnxruntime.InferenceSession(artefact / "model.onnx")
    ids = ("tensor(int32)", ["batch", "length"])
    inputs = {value.name: (value.type, value.shape) for value in session.get_inputs()}
    assert inputs == {"token_ids": ids, "padding_mask": ids}
    (output,) = session.get_outputs()
    assert (output.name, output.shape) == ("embedding", ["batch", encoder.dim])
    metadata = session.get_modelmeta().custom_metadata_map
    assert metadata["tokenizer"].encode() == describe(encoder.tokenizer, 32)
    card = read_card(artefact)
    assert (card["opset"], card["min_onnxruntime"]) == (15, "1.9")
    assert set(card["libraries"]) == {"onnx", "onnxruntime", "tf2onnx"}
    assert card["parity"]["min_cosine"] > 0.99999 and card["quantize"] is None
    text = (artefact / "README.md").read_text(encoding="utf-8")
    assert "opset 15, for onnxruntime 1.9 or newer" in text
    loaded = load_artefact(artefact, threads=1)
    found = loaded.encode(TEXTS, batch_size=2)
    np.testing.assert_allclose(found, encoder.encode(TEXTS), atol=1e-6)


def test_the_script_loads_it(encoder, artefact, tmp_path):
    (tmp_path / "lines.txt").write_text("A dog runs.\n", encoding="utf-8")
    asked = ("--query", TEXTS[0], "--sentences", tmp_path / "lines.txt")
    blocked = ("keras", "keras_msd", "tensorflow", "onnx", "tf2onnx")
    script = loaders_folder() / "load_onnx.py"
    done = run_alone(script, artefact, *asked, blocked=blocked)
    assert done.returncode == 0, done.stderr
    first, second = encoder.encode(["A dog runs.", TEXTS[0]], normalize=True)
    assert done.stdout == f"{first @ second:.4f}\tA dog runs.\n"


@pytest.mark.parametrize("opset", sorted(RUNTIMES))
def test_every_opset(opset, closed_form, tmp_path, without_optimizer):
    facts = write_ids(closed_form, tmp_path / "a", opset=opset)
    model = onnx.load(tmp_path / "a" / "model.onnx")
    assert model.opset_import[0].version == opset == facts["opset"]
    assert facts["min_onnxruntime"] == RUNTIMES[opset]
    found = load_ids(tmp_path / "a")(TEXTS)
    np.testing.assert_allclose(found, closed_form.encode(TEXTS), atol=1e-6)


def test_the_command_line(closed_form, tmp_path, capsys):
    closed_form.save(tmp_path / "encoder")
    arguments = ["export", str(tmp_path / "encoder"), str(tmp_path / "art")]
    for format, code in (("onnx", 0), ("saved_model", 2)):
        with pytest.raises(SystemExit) as end:
            cli.main([*arguments, "--format", format, "--opset", "17"])
        assert (end.value.code or 0) == code
    assert "`saved_model` has no option `opset`: it has none" in capsys.readouterr().err
    assert read_card(tmp_path / "art")["opset"] == 17


def test_bad_requests(encoder, tmp_path, monkeypatch):
    path = tmp_path / "a"
    for opset in (12, 19, 22, 24, "15"):
        with pytest.raises(InputError, match="`opset` must be one of 13, 14, 15, 16"):
            export(encoder, path, format="onnx", opset=opset)
    with pytest.raises(InputError, match="Below opset 23 weights are float32. Receive"):
        export(encoder, path, "onnx", "int8", opset=15)
    with pytest.raises(InputError, match="`onnx_text` has no option `opset`: it has n"):
        export(encoder, path, format="onnx_text", opset=15)
    with pytest.raises(InputError, match=r"it has opset\. Did you mean `opset`\?"):
        export(encoder, path, format="onnx", opsett=15)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "tf2onnx", None)
        with pytest.raises(InputError, match=r'package `tf2onnx`.*msd\[onnx\]"'):
            export(encoder, path, format="onnx", opset=15)
    with monkeypatch.context() as patch:
        patch.setattr(keras.backend, "backend", lambda: "jax")
        with pytest.raises(InputError, match="TensorFlow backend. Received: jax"):
            convert_network(encoder.model, path)
    monkeypatch.setattr(onnx_files, "LARGEST", 100)
    with pytest.raises(InputError, match="smaller than 100 bytes. Received: weights"):
        convert_network(encoder.model, path)
    assert not path.exists()


def own_network():
    """Return a network of another form than an encoder's."""
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    padding_mask = keras.Input((None,), dtype="int32", name="padding_mask")
    hidden = keras.layers.Embedding(50, 8)(token_ids)
    hidden = hidden + keras.layers.Conv1D(8, 3, padding="same")(hidden)
    mean = keras.layers.Lambda(lambda pair: masked_mean(*pair), output_shape=(8,))
    vector = keras.layers.Dense(6, name="vector")(mean([hidden, padding_mask]))
    inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
    return keras.Model(inputs, vector)


def test_a_network_that_a_stage_trained(tmp_path):
    network, random = own_network(), np.random.default_rng(2)
    ids = random.integers(0, 50, (4, 5), np.int32)
    ones, group = np.ones_like(ids), np.arange(4, dtype="int32")
    sides = {f"{side}_token_ids": ids for side in ("source", "target")}
    sides |= {f"{side}_padding_mask": ones for side in ("source", "target")}
    goals = {"teacher": random.standard_normal((4, 6), np.float32)}
    before = network.predict_on_batch({"token_ids": ids, "padding_mask": ones})
    stage = TeachAssistant(network)
    stage.compile("adam")
    stage.train_on_batch(sides | {"group": group}, goals)
    path = convert_network(network, tmp_path / "network.onnx", opset=13)
    session = onnxruntime.InferenceSession(path)
    for rows, length in ((4, 5), (1, 9), (3, 1)):
        batch = {"token_ids": random.integers(0, 50, (rows, length), np.int32)}
        batch["padding_mask"] = np.ones((rows, length), np.int32)
        batch["padding_mask"][0, length - length // 3 :] = 0
        expected = network.predict_on_batch(batch)
        found = session.run(["vector"], batch)[0]
        np.testing.assert_allclose(found, expected, atol=1e-6)
    after = session.run(None, {"token_ids": ids, "padding_mask": ones})[0]
    assert np.abs(after - before).max() > 1e-4  # the trained weights are in the file


def test_names_sizes_and_loops(tmp_path):
    flat, rows = keras.Input((3,), name="flat"), keras.Input((None, 4), name="rows")
    state = keras.layers.GRU(2, name="state")(rows)
    outputs = {"z": keras.layers.Dense(2)(flat), "a": state}
    network = keras.Model([flat, rows], outputs)
    path = convert_network(network, str(tmp_path / "network.onnx"))
    session = onnxruntime.InferenceSession(path)
    sizes = {value.name: value.shape for value in session.get_inputs()}
    assert sizes == {"flat": ["batch", 3], "rows": ["batch", "rows_1", 4]}
    assert list(sizes) == ["flat", "rows"]
    fed = {"flat": np.ones((2, 3), "f"), "rows": np.ones((2, 5, 4), "f")}
    names = [value.name for value in session.get_outputs()]
    assert names == ["a", "z"]
    expected = network(list(fed.values()))
    for name, found in zip(names, session.run(None, fed), strict=True):
        np.testing.assert_allclose(found, expected[name], atol=1e-6)


def test_networks_that_cannot_be_converted(tmp_path):
    class Subclass(keras.Model):
        def call(self, x):
            return x

    path = tmp_path / "network.onnx"
    for network in (Subclass(), keras.Sequential([keras.Input((3,))]), "network"):
        with pytest.raises(InputError, match="must be a functional Keras model"):
            convert_network(network, path)
    x = keras.Input((3,), name="x")
    foreign = keras.layers.Lambda(keras.ops.erfinv)(x)
    with pytest.raises(InputError, match="a form in ONNX. Received: Erfinv"):
        convert_network(keras.Model(x, foreign), path)
    assert not path.exists()


def test_it_is_found_from_the_package():
    assert "onnx" in dir(keras_msd.export)
    assert keras_msd.export.onnx.convert_network is convert_network
