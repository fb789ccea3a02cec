"""Recipes: experiments as TOML files, and what runs them."""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
