"""A sentence encoder: `load().encode(["A text."])`."""

from pathlib import Path

from keras_msd_mini12.light import LightEncoder

FOLDER = Path(__file__).with_name("encoder")


def load() -> LightEncoder:
    """Load the encoder, which needs neither Keras nor TensorFlow.

    `keras_msd.load_encoder("mini12")` gives one that can be trained and exported.
    """
    return LightEncoder(FOLDER)
