"""Kernels in fewer bits: what is stored, what the runtime makes of it, and sizes."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from keras_msd.checks import InputError
from keras_msd.export import litert as exporter
from keras_msd.export.litert import TFLiteModel, convert, quantize_kernels
from keras_msd.testing import tiny_encoder

interpreters = pytest.importorskip("ai_edge_litert.interpreter")
RANDOM = np.random.default_rng(0)
KERNEL = RANDOM.normal(size=(64, 64)).astype(np.float32)
KERNEL[:, 5] = 0  # an output, and so a scale, of zeros
ROWS = RANDOM.normal(size=(3, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def twice():
    """Return the bytes of a model that multiplies with one kernel two times."""
    module = tf.Module()
    module.kernel = tf.Variable(KERNEL)

    @tf.function(input_signature=[tf.TensorSpec([None, 64], name="x")])
    def embed(x):
        return {"y": tf.tanh(x @ module.kernel) @ module.kernel}

    return convert(module, embed).pack()


def quantized(data, kind):
    """Return the model, and its kernel as it is stored."""
    model = TFLiteModel(data)
    assert quantize_kernels(model, kind) == {kind: 1}
    places = {
        int(operator.inputs[1])
        for operator in model.graph.operators
        if model.content.operatorCodes[operator.opcodeIndex].builtinCode
        == schema.BuiltinOperator.FULLY_CONNECTED
    }
    (place,) = places  # one tensor, however often it is used
    return model, model.graph.tensors[place]


def content(model, tensor, kind):
    return np.frombuffer(model.content.buffers[tensor.buffer].data.tobytes(), kind)


def run(model):
    data = model.pack()
    embed = interpreters.Interpreter(model_content=data).get_signature_runner()
    return embed(x=ROWS)["y"]


def product(kernel):
    return np.tanh(ROWS @ kernel) @ kernel


def test_float32_changes_nothing(twice):
    model, tensor = quantized(twice, "float32")
    assert tensor.type == schema.TensorType.FLOAT32 and model.pack() == twice
    np.testing.assert_allclose(run(model), product(KERNEL), rtol=1e-5, atol=1e-5)


def test_float16(twice):
    model, wide = quantized(twice, "float16")
    (half,) = (
        tensor
        for tensor in model.graph.tensors
        if tensor.type == schema.TensorType.FLOAT16
    )
    assert wide.type == schema.TensorType.FLOAT32 and wide.buffer == 0
    stored = content(model, half, np.float16).reshape(64, 64).T
    np.testing.assert_array_equal(stored, KERNEL.astype(np.float16))
    assert model.operators()["DEQUANTIZE"] == 1
    expected = product(stored.astype(np.float32))
    np.testing.assert_allclose(run(model), expected, rtol=1e-4, atol=1e-4)


def test_int8_has_a_scale_for_each_output(twice):
    model, tensor = quantized(twice, "int8")
    assert tensor.type == schema.TensorType.INT8
    numbers = content(model, tensor, np.int8).reshape(64, 64).T
    scales = np.abs(KERNEL).max(axis=0) / 127
    scales[5] = 1
    np.testing.assert_allclose(tensor.quantization.scale, scales, rtol=1e-6)
    assert (
        np.abs(numbers * scales - KERNEL).max(axis=0).tolist()
        <= (scales * 0.5001).tolist()
    )
    assert tensor.quantization.quantizedDimension == 0
    # The runtime rounds what it multiplies with to 8 bits, too.
    found, expected = run(model), product(numbers * scales)
    assert 0 < np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_int4_has_a_scale_for_32_inputs(twice):
    model, tensor = quantized(twice, "int4")
    assert tensor.type == schema.TensorType.INT4
    packed = content(model, tensor, np.uint8)
    numbers = np.stack([packed & 15, packed >> 4], axis=1).reshape(64, 2, 32)
    numbers = (numbers.astype(np.int8) ^ 8) - 8
    details = tensor.quantization.details
    scales = content(model, model.graph.tensors[details.scales], np.float16)
    kernel = (numbers * scales.reshape(64, 2, 1).astype(np.float32)).reshape(64, 64).T
    whole = np.abs(KERNEL.T.reshape(64, 2, 32)).max(axis=2, keepdims=True) / 7
    naive = np.rint(KERNEL.T.reshape(64, 2, 32) / np.where(whole > 0, whole, 1)) * whole
    error = np.square(kernel - KERNEL).sum()
    assert 0.5 < error / np.square(naive.reshape(64, 64).T - KERNEL).sum() < 1
    found, expected = run(model), product(kernel)
    assert 0 < np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def narrow(width):
    """Return a model of two kernels, of 48 and of `width` inputs."""
    module = tf.Module()
    module.kernels = [tf.Variable(KERNEL[:48, :width]), tf.Variable(KERNEL[:width])]

    @tf.function(input_signature=[tf.TensorSpec([None, 48], name="x")])
    def embed(x):
        return {"y": tf.tanh(x @ module.kernels[0]) @ module.kernels[1]}

    return TFLiteModel(convert(module, embed).pack())


def test_int4_of_another_width_has_eight_bits():
    model = narrow(64)
    assert quantize_kernels(model, "int4") == {"int4": 1, "int8": 1}
    types = {tuple(one.shape): one.type for one in model.graph.tensors}
    assert types[64, 48] == schema.TensorType.INT8
    assert types[64, 64] == schema.TensorType.INT4
    with pytest.raises(InputError, match="none of 2 kernels .*='int4_table'"):
        quantize_kernels(narrow(40), "int4")


def test_each_tensor_is_in_the_file_once(tokenizer, tmp_path):
    """However often a kernel is used: the file takes a byte a parameter."""
    encoder = tiny_encoder(
        tokenizer,
        num_layers=1,
        repeats=4,
        hidden_dim=128,
        intermediate_dim=512,
        num_heads=4,
        bottleneck_dim=64,
    )
    for weight in encoder.model.weights:
        weight.assign(weight + RANDOM.normal(0, 0.1, weight.shape))
    exporter.write_ids(encoder, tmp_path / "model", "int8")
    model = TFLiteModel((tmp_path / "model" / "model.tflite").read_bytes())
    hashes = [
        hashlib.sha256(buffer.data.tobytes()).hexdigest()
        for buffer in model.content.buffers
        if buffer.data is not None
    ]
    assert len(set(hashes)) == len(hashes)
    stored = sum(b.data.size for b in model.content.buffers if b.data is not None)
    # Scales, positions and small weights in float32 are all that is added.
    assert encoder.num_parameters < stored < 1.15 * encoder.num_parameters
