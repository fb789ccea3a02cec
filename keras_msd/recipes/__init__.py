"""Recipes: experiments as TOML files, and what runs them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_msd.recipes.demo import run_demo
    from keras_msd.recipes.listing import list_recipes
    from keras_msd.recipes.loading import load_recipe
    from keras_msd.recipes.runner import run
    from keras_msd.recipes.runner_all import run_all

_NAMES = {
    "list_recipes": "listing",
    "load_recipe": "loading",
    "run": "runner",
    "run_all": "runner_all",
    "run_demo": "demo",
}

__all__ = ["list_recipes", "load_recipe", "run", "run_all", "run_demo"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
