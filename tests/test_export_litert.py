"""LiteRT models of token ids, run by ai-edge-litert."""

import functools
import sys
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from random_encoder import WITHOUT_NUL, random_encoder

from keras_msd.checks import InputError
from keras_msd.export import litert as exporter
from keras_msd.export.litert_files import load_ids, with_tokenizer
from keras_msd.export.portable import describe
from keras_msd.export.proof import row_cosines

interpreters = pytest.importorskip("ai_edge_litert.interpreter")


@pytest.fixture(scope="module")
def encoder(tokenizer):
    sizes = {"hidden_dim": 32, "intermediate_dim": 64, "bottleneck_dim": 16}
    return random_encoder(tokenizer, repeats=2, **sizes)


@pytest.fixture(scope="module")
def made(encoder, tmp_path_factory):
    """Return a function that writes once and gives the folder and its facts."""

    @functools.cache
    def make(quantize):
        path = tmp_path_factory.mktemp("made") / "model"
        return path, exporter.write_ids(encoder, path, quantize)

    return make


def test_sentences_go_to_interpreters_that_are_made_when_needed(made, monkeypatch):
    """Each sentence alone, on one of at most three, from several threads at a time."""
    folder, opened, texts = made(None)[0], [], WITHOUT_NUL * 5
    alone = load_ids(folder, threads=1)(texts)
    real = interpreters.Interpreter
    monkeypatch.setattr(
        interpreters,
        "Interpreter",
        lambda *it, **other: opened.append(1) or real(*it, **other),
    )
    run = load_ids(folder, threads=3)
    run(texts[:1])
    assert len(opened) == 1
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(run, [texts] * 4):
            np.testing.assert_array_equal(found, alone)
    assert 1 < len(opened) <= 3
    assert run([]).shape == (0, alone.shape[1])


@pytest.mark.parametrize(
    ("quantize", "cosine"),
    [("fp16", 0.99999), ("int8", 0.995), ("int4", 0.9)],
)
def test_fewer_bits(encoder, made, quantize, cosine):
    found = row_cosines(
        encoder.encode(WITHOUT_NUL), load_ids(made(quantize)[0])(WITHOUT_NUL)
    )
    assert cosine < found.min() < 1 - 1e-7


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_any_batch_and_length(encoder, made, quantize):
    model = made(quantize)[0] / "model.tflite"
    embed = interpreters.Interpreter(str(model)).get_signature_runner()
    assert set(embed.get_input_details()) == {"token_ids", "padding_mask"}
    random = np.random.default_rng(0)
    for rows, length in ((3, 7), (1, 32), (4, 2), (3, 7)):
        ids = random.integers(2, 90, (rows, length)).astype(np.int32)
        mask = (np.arange(length) < random.integers(1, length + 1, (rows, 1))) * 1
        mask = mask.astype(np.int32)
        found = embed(token_ids=ids, padding_mask=mask)
        assert list(found) == ["embedding"]
        expected = encoder.model({"token_ids": ids, "padding_mask": mask})
        if quantize is None:
            np.testing.assert_allclose(found["embedding"], expected, atol=2e-6)
        assert row_cosines(expected, found["embedding"]).min() > 0.995


def left_by_xnnpack(interpreter):
    """Return the names of the operators that XNNPACK does not run.

    There is no public list. A delegate appears as one more operator, from the tensors
    that it needs to those that it gives; what lies between them is what it runs.
    """
    operators = interpreter._get_ops_details()
    plain = [item for item in operators if item["op_name"] != "DELEGATE"]
    makers = {tensor: operator for operator in plain for tensor in operator["outputs"]}
    inside = set()
    for piece in (item for item in operators if item["op_name"] == "DELEGATE"):
        received, pending = set(piece["inputs"]), list(piece["outputs"])
        while pending:
            tensor = pending.pop()
            maker = makers.get(tensor)
            if tensor in received or maker is None or maker["index"] in inside:
                continue
            inside.add(maker["index"])
            pending.extend(maker["inputs"])
    return {item["op_name"] for item in plain if item["index"] not in inside}


def test_all_that_takes_time_runs_in_xnnpack(made):
    heavy = {"BATCH_MATMUL", "FULLY_CONNECTED", "SOFTMAX", "GELU", "MEAN"}
    path, facts = made("int4")
    assert facts["kernels"]["int4"] > 0
    for name in heavy:
        assert facts["operators"][name] >= 2  # a pass over the unit each
    model = str(path / "model.tflite")
    interpreter = interpreters.Interpreter(model)
    interpreter.allocate_tensors()
    assert not left_by_xnnpack(interpreter) & heavy
    plain = interpreters.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    alone = interpreters.Interpreter(model, experimental_op_resolver_type=plain)
    alone.allocate_tensors()
    assert left_by_xnnpack(alone) == set(facts["operators"])


@pytest.mark.parametrize("quantize", [None, "int4"])
def test_every_tensor_has_a_name_of_its_own(made, quantize):
    model = exporter.TFLiteModel((made(quantize)[0] / "model.tflite").read_bytes())
    names = [tensor.name for tensor in model.graph.tensors]
    assert all(names) and len({*names}) == len(names) > 50
    assert sum(map(len, names)) < 5 * len(names)  # long ones would be dead weight


def test_the_tokenizer_travels_in_the_file(encoder, made):
    model = made(None)[0] / "model.tflite"
    with zipfile.ZipFile(model) as archive:
        entry = archive.getinfo("tokenizer.json")
        description = archive.read(entry)
    assert entry.compress_size < 0.6 * entry.file_size
    assert description == describe(encoder.tokenizer, encoder.max_length)
    # TensorFlow's own interpreter skips what follows the model, too.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        embed = tf.lite.Interpreter(str(model)).get_signature_runner()
    ids = np.array(encoder.tokenizer.encode(WITHOUT_NUL[:1]), np.int32)
    np.testing.assert_allclose(
        embed(token_ids=ids, padding_mask=np.ones_like(ids))["embedding"],
        encoder.encode(WITHOUT_NUL[:1]),
        atol=2e-6,
    )


def test_files_that_are_no_such_model(encoder, tmp_path):
    description = describe(encoder.tokenizer, encoder.max_length)

    @tf.function(input_signature=[tf.TensorSpec([1], tf.int32, name="token_ids")])
    def twice(token_ids):
        return {"embedding": token_ids + token_ids}

    tf.saved_model.save(tf.Module(), str(tmp_path / "s"), signatures=twice)
    other = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "s")).convert()
    nothing = b"\0\0\0\0TFL3" * 9
    cases = {  # what a tokenizer's place may lack: test_tflite_edit.py
        "no model": (with_tokenizer(nothing, description), "no LiteRT model"),
        "another": (with_tokenizer(other, description), "its inputs are token_ids"),
    }
    for name, (content, message) in cases.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "model.tflite").write_bytes(content)
        with pytest.raises(InputError, match=message):
            load_ids(folder)


def test_bad_requests(encoder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    for ask in (exporter.write_ids, lambda *_: load_ids("")):
        with pytest.raises(InputError, match=r"\.\[litert\]"):
            ask(encoder, tmp_path / "a")
    assert not (tmp_path / "a").exists()
