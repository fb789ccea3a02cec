import zipfile

import numpy as np
import pytest
import tensorflow as tf
from portable_cases import stored

from keras_msd.checks import InputError
from keras_msd.export.litert import convert
from keras_msd.export.litert_files import MOST_BYTES, read_tokenizer, with_tokenizer


class Small(tf.Module):
    """Two kernels and a table of halves."""

    def __init__(self):
        super().__init__()
        random = np.random.default_rng(0)
        self.kernels = [random.normal(size=(8, 8)).astype(np.float32) for _ in "ab"]
        self.table = random.normal(size=(5, 8)).astype(np.float16)
        self.stored = [tf.Variable(one) for one in (*self.kernels, self.table)]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="rows")])
    def run(self, rows):
        first, second, table = self.stored
        hidden = tf.tanh(tf.cast(tf.gather(table, rows), tf.float32) @ first)
        return {"out": tf.tanh(hidden @ second)}


@pytest.fixture(scope="module")
def small():
    return Small()


@pytest.fixture
def model(small):
    return convert(small, small.run)


def test_data_are_aligned_and_held_once(small, model):
    buffers = model.content.buffers
    odd = type(buffers[0])(data=np.full(5, 7, np.uint8))  # moves what follows it
    for user in (*model.graph.tensors, *(model.content.metadata or [])):
        user.buffer += user.buffer > 0
    buffers.insert(1, odd)
    content = model.pack()
    for one in (*(kernel.T for kernel in small.kernels), small.table):
        data = np.ascontiguousarray(one).tobytes()
        assert content.count(data) == 1
        assert content.find(data) % 16 == 0


def test_a_tokenizer_behind_a_model(model, tmp_path):
    data, description = model.pack(), b'{"a": 1}'
    content = with_tokenizer(data, description)
    assert content.startswith(data) and content == with_tokenizer(data, description)
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    assert read_tokenizer(path) == description
    path.write_bytes(data)
    with pytest.raises(InputError, match="must hold its tokenizer"):
        read_tokenizer(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tokenizer.json", bytes(MOST_BYTES + 1))
    with pytest.raises(InputError, match="it would have 50,000,001 bytes"):
        read_tokenizer(path)
    path.write_bytes(stored(data, description))
    assert read_tokenizer(path) == description
    for place in range(8, len(content), 29):
        path.write_bytes(content[:place])
        with pytest.raises(InputError, match="model.tflite"):
            read_tokenizer(path)
