"""Small multilingual sentence encoders, distilled from a teacher that you trust."""

import os
import sys

from keras_msd.lazy import lazy_names
from keras_msd.version import __version__ as __version__

if "tensorflow" not in sys.modules:
    # oneDNN's kernels speed up training (benchmarks/results/recipe.json) on x86
    # processors without AVX512-VNNI, too, where TensorFlow leaves them off. It reads
    # this at import.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
