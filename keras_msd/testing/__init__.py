"""Tiny data and encoders, and checks for layers, losses and stages of one's own."""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
