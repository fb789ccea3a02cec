"""Recipes: experiments as TOML files, and what runs them."""

from typing import TYPE_CHECKING

from keras_msd.lazy import lazy_names

if TYPE_CHECKING:
    from keras_msd.recipes.demo import run_demo
    from keras_msd.recipes.runs.runner import run
    from keras_msd.recipes.runs.runner_all import run_all
    from keras_msd.recipes.schema.listing import list_recipes
    from keras_msd.recipes.schema.loading import load_recipe

__all__ = ["list_recipes", "load_recipe", "run", "run_all", "run_demo"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "list_recipes": "keras_msd.recipes.schema.listing",
        "load_recipe": "keras_msd.recipes.schema.loading",
        "run": "keras_msd.recipes.runs.runner",
        "run_all": "keras_msd.recipes.runs.runner_all",
        "run_demo": "keras_msd.recipes.demo",
    },
)
