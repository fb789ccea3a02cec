"""Recipes: experiments as TOML files, and what runs them.

Read the modules in this order: `settings` (what a recipe can set; each stage declares
its own); `load` (from TOML files to a `Recipe`); `runner` (the list of a run's steps,
which it performs); `prepare`, `train` and `outputs` (the functions of the steps);
`cache` (which steps are done). The others are for when you need them.
"""

from keras_msd.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
