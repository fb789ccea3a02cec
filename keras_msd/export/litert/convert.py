"""From a TensorFlow module to a LiteRT model."""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from keras_msd.checks import InputError
from keras_msd.export.litert.edit import TFLiteModel

SIGNATURE = "serving_default"


def check_backend() -> None:
    """Raise `InputError` unless Keras runs on TensorFlow, which writes LiteRT files."""
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "A .tflite file is written under Keras' TensorFlow backend. Received: "
            f"{keras.backend.backend()}. Save the encoder, set "
            "KERAS_BACKEND=tensorflow, load it and export it there."
        )


def convert(module: tf.Module, embed: Any) -> TFLiteModel:
    """Convert a function with float32 kernels to the signature `SIGNATURE`.

    Operations that LiteRT does not have become custom operators of the same name:
    compare `operators()` of the result with what the runtime registers.

    Args:
        module: Tracks the variables and tables that the function uses; others would
            not reach the file.
        embed: A `tf.function` with an input signature, returning a dictionary.
    """
    # A SavedModel keeps the signature's names.
    with tempfile.TemporaryDirectory() as folder, _quiet():
        tf.saved_model.save(module, folder, signatures={SIGNATURE: embed})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        converter.allow_custom_ops = True
        model = TFLiteModel(converter.convert())
    model.gather_halves()
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
