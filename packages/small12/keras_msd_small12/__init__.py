"""The sentence encoder small12: `keras_msd.load_encoder("small12")`."""

from pathlib import Path

FOLDER = Path(__file__).with_name("encoder")
