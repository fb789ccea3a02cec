"""The encoder tiny12, which `keras_msd.load_encoder("tiny12")` reads."""

from pathlib import Path

FOLDER = Path(__file__).with_name("encoder")
