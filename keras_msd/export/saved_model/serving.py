"""Warm-up requests for TensorFlow Serving, in the place where it looks for them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_msd.data.padding import pad_batch

WARM_UP = "assets.extra/tf_serving_warmup_requests"
SHORT = "ok"
SENTENCE = "Der Zug nach Zürich kommt heute zehn Minuten später an."
LONG = "The ferry leaves at seven, whatever the weather, and nobody minds. " * 20
BATCHES = ([SHORT], [SENTENCE], [LONG], [SENTENCE, "", LONG, SHORT], [SENTENCE] * 32)

# Fields of the messages that a request is made of (tensorflow_serving/apis:
# prediction_log.proto, predict.proto, model.proto). Each has a length and bytes.
PREDICT_LOG = 6  # of PredictionLog
REQUEST = 1  # of PredictLog
MODEL, INPUTS = 1, 2  # of PredictRequest
NAME, SIGNATURE = 1, 3  # of ModelSpec
KEY, VALUE = 1, 2  # of an entry of a map


def write_warm_up(folder: Path, encoder: Any) -> int:
    """Write requests that a server runs before it takes the first real one.

    The first call of a signature is many times slower than later ones. Requests are of
    one sentence and of many, short, long and empty, for both signatures.

    Args:
        folder: Of one version of the model, with `saved_model.pb`.
        encoder: Its tokenizer makes the token ids.

    Returns:
        How many requests there are.

    Source: TensorFlow Serving, "SavedModel Warmup": a TFRecord file of PredictionLog.
    """
    requests = list(_requests(encoder))
    path = folder / WARM_UP
    path.parent.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in requests:
            writer.write(request)
    return len(requests)


def _requests(encoder: Any) -> Iterator[bytes]:
    pad_id, longest = encoder.tokenizer.pad_id, encoder.max_length
    for texts in BATCHES:
        yield _prediction_log("serving_default", {"text": texts})
        ids = encoder.tokenizer.encode(texts, longest)
        yield _prediction_log("token_ids", pad_batch(ids, pad_id, longest=longest))


def _prediction_log(signature: str, inputs: Mapping[str, Any]) -> bytes:
    # A server gives the request to the model it is warming up, whatever its name.
    model = _field(NAME, b"encoder") + _field(SIGNATURE, signature.encode())
    request = _field(MODEL, model)
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString(deterministic=True)
        entry = _field(KEY, name.encode()) + _field(VALUE, tensor)
        request += _field(INPUTS, entry)
    return _field(PREDICT_LOG, _field(REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """Return a field of a protocol buffer that has a length: number, length, bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Return a number seven bits a byte, the lowest first, the top bit on all but one.

    Source: Protocol Buffers, "Encoding".
    """
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])
