"""Tables and stores of large corpora, as an Apache Beam pipeline (extra `beam`)."""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
