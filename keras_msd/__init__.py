"""Small multilingual sentence encoders, distilled from a teacher that you trust."""

import os
import sys

from keras_msd.lazy import lazy_names
from keras_msd.version import __version__ as __version__

if "tensorflow" not in sys.modules:
    # oneDNN's kernels nearly double the speed of training on x86 processors that do not
    # have AVX512-VNNI, too, where TensorFlow leaves them off. It reads this at import.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
