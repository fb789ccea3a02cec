"""Small multilingual sentence encoders, distilled from a teacher that you trust."""

from keras_msd.lazy import lazy_names
from keras_msd.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
