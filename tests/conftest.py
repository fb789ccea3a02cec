"""Fixtures shared by all tests."""

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("MPLBACKEND", "Agg")

import keras
import pytest

SHARED_DATA = Path(
    os.environ.get("KERAS_MSD_DATA", Path(__file__).parents[2] / "shared" / "data")
)


@pytest.fixture(autouse=True)
def seeded():
    """Give every test the same random state."""
    keras.utils.set_random_seed(7)


@pytest.fixture(autouse=True)
def no_op_determinism():
    """Switch TensorFlow's op determinism off again: a run turns it on for good."""
    yield
    if keras.backend.backend() == "tensorflow":
        from tensorflow.python.framework import config

        config.disable_op_determinism()


@pytest.fixture
def shared_data() -> Path:
    """Return the folder of real corpora; skip where there is none."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no data folder beside the checkout; set KERAS_MSD_DATA")
    return SHARED_DATA


@pytest.fixture(scope="session")
def tokenizer():
    """Return the tiny tokenizer, trained once."""
    from keras_msd.testing import tiny_tokenizer

    return tiny_tokenizer()
