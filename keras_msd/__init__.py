"""Small multilingual sentence encoders, distilled from a teacher that you trust."""

import os
import sys

from keras_msd.lazy import import_with, lazy_names
from keras_msd.stderr import quiet_tensorflow
from keras_msd.version import __version__ as __version__

if "tensorflow" not in sys.modules:
    # oneDNN's kernels speed up training (benchmarks/results/recipe.json) on x86
    # processors without AVX512-VNNI, too, where TensorFlow leaves them off. It reads
    # this at import.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    quiet_tensorflow()

# Keras then knows our layers by name: `keras.saving.load_model` takes files with them.
# None of them imports another, as one may be what imports Keras.
import_with(
    "keras",
    "keras_msd.layers.bottleneck_embedding",
    "keras_msd.layers.pooling",
    "keras_msd.layers.recurrent_encoder",
)

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
