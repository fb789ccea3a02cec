"""Optimizer, callbacks, exact resume and the training steps of both backends."""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
