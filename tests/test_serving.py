"""The warm-up file, read with TensorFlow Serving's message definitions."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2

from keras_msd.export.saved_model import exporter as saved_model
from keras_msd.export.saved_model.files import BATCHES, WARM_UP
from keras_msd.testing import tiny_encoder

# tensorflow_serving/apis/{prediction_log,predict,model}.proto: message, field, number,
# type; only what a predict request needs.
FIELDS = [
    ("PredictionLog", "predict_log", 6, "PredictLog"),
    ("PredictLog", "request", 1, "PredictRequest"),
    ("PredictRequest", "model_spec", 1, "ModelSpec"),
    ("PredictRequest", "inputs", 2, "InputsEntry"),
    ("ModelSpec", "name", 1, "string"),
    ("ModelSpec", "signature_name", 3, "string"),
]
PACKAGE = "keras_msd_test"


def prediction_log():
    """Return a class of PredictionLog, made from `FIELDS`."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{PACKAGE}.proto", package=PACKAGE, syntax="proto3"
    )
    file.dependency.append(tensor_pb2.DESCRIPTOR.name)
    messages = {}
    for message, name, number, kind in FIELDS:
        if message not in messages:
            messages[message] = file.message_type.add(name=message)
        field = messages[message].field.add(name=name, number=number, label=1)
        if kind == "string":
            field.type = field.TYPE_STRING
        else:
            within = "PredictRequest." if kind == "InputsEntry" else ""
            field.type = field.TYPE_MESSAGE
            field.type_name = f".{PACKAGE}.{within}{kind}"
            field.label = 3 if within else 1
    entry = messages["PredictRequest"].nested_type.add(name="InputsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(
        name="value", number=2, label=1, type=11, type_name=".tensorflow.TensorProto"
    )
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{PACKAGE}.PredictionLog")
    )


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return tiny_encoder(tokenizer, bottleneck_dim=4)


@pytest.fixture(scope="module")
def folder(encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "art"
    facts = saved_model.write(encoder, path)
    assert facts["warm_up_requests"] == 2 * len(BATCHES)
    return path / "1"


@pytest.fixture(scope="module")
def records(folder):
    path = str(folder / "assets.extra" / "tf_serving_warmup_requests")
    assert path == str(folder / WARM_UP)
    return [record.numpy() for record in tf.data.TFRecordDataset(path)]


def test_every_request_runs(encoder, folder, records):
    kind, served = prediction_log(), tf.saved_model.load(str(folder))
    shapes = set()
    for index, record in enumerate(records):
        log = kind.FromString(record)
        assert log.SerializeToString(deterministic=True) and not _unknown(log)
        request = log.predict_log.request
        assert request.model_spec.name
        inputs = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
        run = served.signatures[request.model_spec.signature_name]
        found = run(**{name: tf.constant(value) for name, value in inputs.items()})
        expected = encoder.encode(BATCHES[index // 2])
        np.testing.assert_allclose(found["embedding"], expected, atol=1e-6)
        shapes.add((request.model_spec.signature_name, *expected.shape[:1]))
    assert shapes == {
        (name, rows) for name in ("serving_default", "token_ids") for rows in (1, 4, 32)
    }


def _unknown(log):
    """Tell whether a part of the message has a field that the definition lacks."""
    again = type(log)()
    again.CopyFrom(log)
    again.DiscardUnknownFields()
    return again.ByteSize() != log.ByteSize()


def test_serving_itself_reads_them(records):
    module = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    for index, record in enumerate(records):
        log = module.PredictionLog.FromString(record)
        assert log.WhichOneof("log_type") == "predict_log" and not _unknown(log)
        request = log.predict_log.request
        is_text = request.model_spec.signature_name == "serving_default"
        names = ["text"] if is_text else ["padding_mask", "token_ids"]
        assert sorted(request.inputs) == names
        (rows,) = {v.tensor_shape.dim[0].size for v in request.inputs.values()}
        assert rows == len(BATCHES[index // 2])
