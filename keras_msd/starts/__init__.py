"""Initializations of assistants and students: pure functions that recipes use."""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
