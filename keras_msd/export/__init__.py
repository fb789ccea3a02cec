"""Artefacts: encoders as files that need neither Keras nor this package.

A format is an entry of the dict `FORMATS`. `FORMATS["name"] = Format(...)` adds one,
which `export`, `load_encoder`, the command line and the cards know from then on.
"""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
