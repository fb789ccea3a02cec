import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from child_process import run_python
from random_encoder import WITHOUT_NUL, random_encoder
from tensorflow.core.framework.node_def_pb2 import NodeDef

from keras_msd.arrays import pad_batch
from keras_msd.checks import InputError
from keras_msd.export import saved_model
from keras_msd.export.saved_model import message_bytes
from keras_msd.layers import Pooling
from keras_msd.models import Encoder

IDS = "token_ids", "padding_mask"


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return random_encoder(tokenizer)


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "art"
    saved_model.write(encoder, path)
    return path


def test_ids_are_a_second_way_in(encoder, artefact):
    run = tf.saved_model.load(str(artefact / "1")).signatures["token_ids"]
    for texts, width in (
        ([WITHOUT_NUL[0], WITHOUT_NUL[3]], encoder.max_length),
        ([WITHOUT_NUL[2]], encoder.max_length),
        ([""], 2),
        ([], 5),
    ):
        ids = encoder.tokenizer.encode(texts, encoder.max_length)
        batch = pad_batch(ids, encoder.tokenizer.pad_id, multiple=width)
        found = run(**{name: tf.constant(value) for name, value in batch.items()})
        assert list(found) == ["embedding"]
        np.testing.assert_allclose(found["embedding"], encoder.encode(texts), atol=1e-6)


def test_maps_are_written_by_their_keys():
    keys = ["T", "Tidx", "Tindices", "Tshape", "shape", "shapes"]
    node = NodeDef(name="n", input=["a:0", "^b"])
    for key in keys[::-1]:
        node.attr[key].list.i.extend([len(key), 0])
    written = message_bytes(node)
    assert NodeDef.FromString(written) == node
    places = [written.index(b"\n%c%b\x12" % (len(key), key.encode())) for key in keys]
    assert places == sorted(places)


WRITTEN = """
from google.protobuf.internal import api_implementation
from tensorflow.core.framework.function_pb2 import FunctionDef
from keras_msd.export.saved_model import message_bytes

assert api_implementation.Type() == "python"
function = FunctionDef(ret={"a": "b:0", "ab": ""})
function.attr["x"].i = 0
written = message_bytes(function)
assert FunctionDef.FromString(written) == function
print("whole")
"""


def test_messages_are_whole_where_protobuf_is_pure_python():
    """onnxruntime-extensions chooses that for every process that it starts."""
    told = run_python(WRITTEN, PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python")
    assert told == "whole\n"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("saved_model.pb", lambda data: b""),
        ("saved_model.pb", lambda data: b"not what it was" * 9),
        ("variables.index", lambda data: data[: len(data) // 2]),
        ("variables.data-00000-of-00001", lambda data: data[:-1]),
    ],
)
def test_damaged_files_are_an_error(artefact, tmp_path, name, change):
    path = shutil.copytree(artefact, tmp_path / "art")
    [file] = path.rglob(name)
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(
        InputError, match="must be a (whole )?SavedModel .*Take a whole copy"
    ):
        saved_model.load(path)


def test_foreign_folders_are_an_error(tmp_path):
    with pytest.raises(InputError, match="Take a whole copy, or export"):
        saved_model.load(tmp_path)
    foreign = tf.Module()
    foreign.double = tf.function(
        lambda text: {"twice": text + text},
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
    )
    for signatures in ({}, {"serving_default": foreign.double}):
        tf.saved_model.save(foreign, str(tmp_path / "1"), signatures=signatures)
        with pytest.raises(InputError, match="A SavedModel must map"):
            saved_model.load(tmp_path)


@pytest.mark.parametrize("name", ["m[ab]c", "a*"])
def test_names_that_tensorflow_takes_for_patterns(encoder, artefact, tmp_path, name):
    with pytest.raises(InputError, match="which it takes for a pattern"):
        encoder.export(tmp_path / name)
    moved = shutil.copytree(artefact, tmp_path / name)
    with pytest.raises(InputError, match="which it takes for a pattern"):
        saved_model.load(moved)


def test_bad_requests(encoder, artefact, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="only before its first operation"):
        saved_model.load(artefact, threads=1)
    inputs = [keras.Input((None,), dtype="int32", name=n) for n in IDS]
    words = keras.layers.Embedding(encoder.tokenizer.vocabulary_size, 8)(inputs[0])
    model = keras.Model(inputs, Pooling("mean")(words, inputs[1]))
    own = Encoder.from_model(model, encoder.tokenizer)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(InputError, match="KERAS_BACKEND=tensorflow"):
        saved_model.write(own, tmp_path / "a")
