"""Evaluate anything that turns sentences into vectors: scores, costs, mining."""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
