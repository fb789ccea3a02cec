"""Fixtures shared by all tests."""

import os
import signal
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as keras_msd does before Keras
# Most compiled programs run once in a test, so XLA does not optimize them. JAX compiles
# each operation, and keeps the result for other processes.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false",
)
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache/jax")
)
if "PYTEST_XDIST_WORKER" in os.environ:  # each core has a process of its own
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

# A shell's background jobs ignore Ctrl-C, which tests send themselves.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import keras
import pytest

# The files that take longest go first, so that processes end at about the same time.
SLOWEST = [
    f"test_{name}.py"
    for name in (
        *("notebook", "jax", "recipes_runner", "examples", "stages"),
        *("recipes_thin_deep", "recipes_papers", "recipes_cache", "wheel"),
        *("training_chunks", "stages_mirrored", "checkpoints_e5"),
        *("export_litert_text", "export_formats", "export_tensorflow_network"),
        *("export_litert", "extending", "evaluate_sets"),
        *("recipes_table", "recipes_backbone", "recipes_halves"),
        *("checkpoints_checkpoint", "regress_similarity"),
    )
]


def pytest_collection_modifyitems(items):
    """Order the files; the tests of each stay together and in their order."""
    rank = {name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


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


def line_by_line():
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def eagerly():
    """Let TensorFlow run one test line by line, without graphs and XLA."""
    yield from line_by_line()


@pytest.fixture(scope="module")
def no_graphs():
    """Let TensorFlow run line by line, as tracing takes most of a short run's time.

    For runs that prove what a recipe does with its settings. That in test_extending.py
    has its graphs.
    """
    yield from line_by_line()


@pytest.fixture(scope="module")
def no_charts():
    """Draw no charts: they take seconds, and test_report.py reads them."""
    from keras_msd.report import charts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "_svg_text", lambda figure: "<svg></svg>")
        yield


@pytest.fixture
def plain_format():
    """Register the format "plain", which has no runtime."""
    import plain_exporter

    from keras_msd.export import FORMATS

    FORMATS["plain"] = plain_exporter.FORMAT
    yield
    del FORMATS["plain"]


@pytest.fixture(scope="session")
def tokenizer():
    """Return the tiny tokenizer, trained once."""
    from keras_msd.testing import tiny_tokenizer

    return tiny_tokenizer()
