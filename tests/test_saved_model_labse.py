"""LaBSE's published SavedModel, made small, against its checkpoint's vectors."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text
from safetensors.numpy import load_file
from saved_models import IDS, TEXT, save

from keras_msd.checkpoints.loading import load_encoder
from keras_msd.checks import InputError
from keras_msd.teachers.teacher import load_teacher

GOLDEN = Path(__file__).parent / "golden"
LABSE = GOLDEN / "labse" / "cased"
TEXTS = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))
LENGTH = 16  # of the checkpoint's longest sentence


def labse_network():
    """Return LaBSE's network from ids to outputs by name, and what it owns."""
    encoder = load_encoder(LABSE)

    def network(ids, mask, types, training):
        vectors = encoder.model({"token_ids": ids, "padding_mask": mask})
        vectors += tf.cast(tf.reduce_sum(types), tf.float32)
        if training:  # as dropout, and a mistake in any teacher
            vectors += 1
        tokens = tf.cast(ids, tf.float32)[..., None]
        return {
            "sequence_output": tokens,
            "encoder_outputs": [tokens, tokens],
            "pooled_output": 2 * vectors,
            "default": vectors,
        }

    return network, [weight.value for weight in encoder.model.weights]


def save_labse_preprocessor(folder):
    path = str(LABSE / "vocab.txt")
    tokenizer = tf_text.BertTokenizer(path, token_out_type=tf.int32)

    def preprocess(sentences, training=False):
        ids = tokenizer.tokenize(sentences).merge_dims(-2, -1)[:, : LENGTH - 2]
        edge = tf.ones([tf.size(sentences), 1], tf.int32)
        ids = tf.concat([edge * 2, ids, edge * 3], axis=1)
        packed = [ids, tf.ones_like(ids), tf.zeros_like(ids)]
        tensors = [one.to_tensor(0, shape=[None, LENGTH]) for one in packed]
        return dict(zip(IDS, tensors, strict=True))

    return save(preprocess, folder, TEXT, training=True, tokenizer=tokenizer)


def save_labse(folder):
    """Save a preprocessor and an encoder as TensorFlow's exporter for LaBSE does."""
    network, owned = labse_network()

    def encode(inputs, training=False):
        return network(*(inputs[name] for name in IDS), training)

    spec = {name: tf.TensorSpec([None, None], tf.int32, name) for name in IDS}
    save(encode, folder / "encoder", spec, training=True, owned=owned)
    save_labse_preprocessor(folder / "preprocessor")
    return folder


def test_labse_gives_the_vectors_of_its_checkpoint(tmp_path):
    folder = save_labse(tmp_path / "labse")
    table = "InitializeTableFromTextFileV2"  # of the preprocessor's vocabulary
    with pytest.raises(InputError, match=table):
        load_teacher(folder)
    teacher = load_teacher(folder, allow_operations=[table])
    expected = load_file(LABSE / "expected.safetensors")["vectors"]
    np.testing.assert_allclose(teacher.encode(TEXTS), expected, atol=1e-5, rtol=0)
    # A batch of short sentences alone is as long as the encoder wants it.
    short = teacher.encode(TEXTS[-1:])
    np.testing.assert_allclose(short, expected[-1:], atol=1e-5, rtol=0)
    assert (teacher.name, teacher.dim, teacher.normalized) == ("labse", 12, True)
