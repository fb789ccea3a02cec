"""Text files as chunks with int8 vectors on disk, searched exactly."""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
