"""Losses, one idea a file; `LOSSES` knows them by the names that recipes use."""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
