"""What recipes there are."""

from typing import Any

from keras_msd.recipes.schema.folders import recipe_files
from keras_msd.recipes.schema.loading import describe


def list_recipes() -> list[dict[str, Any]]:
    """Return every recipe, by name.

    Returns:
        For each `{"name", "title", "paper", "table", "row", "cost", "scales",
        "default_scale", "expected", "rows"}`; `expected` holds published scores x100,
        `rows` the same by model where a recipe has several rows of a table: `{"table",
        "row", "x", "expected"}`.

    Raises:
        InputError: A recipe file is broken.
    """
    return [describe(path).model_dump(mode="json") for path in recipe_files().values()]
