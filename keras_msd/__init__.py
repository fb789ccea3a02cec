"""Small multilingual sentence encoders, distilled from a teacher that you trust."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from keras_msd.lazy import METHODS, AroundImport, OnUse, lazy_names
from keras_msd.runtimes import quiet_tensorflow

__version__ = "0.2.0"

if "tensorflow" not in sys.modules:
    # oneDNN's kernels speed up training also on x86 processors without AVX512-VNNI,
    # where TensorFlow leaves them off. It reads this at import.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    quiet_tensorflow()


@contextmanager
def _with_layers() -> Iterator[None]:
    yield
    import keras_msd.layers  # noqa: F401


# Keras then knows our layers by name: `keras.saving.load_model` takes files with them.
AroundImport("keras", _with_layers)


METHODS["Encoder.export"] = OnUse(f"{__name__}.export.artefact", "export")

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
