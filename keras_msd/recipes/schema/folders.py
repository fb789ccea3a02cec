"""Find recipe files: in the installed package first, in a checkout beside it."""

from functools import cache
from pathlib import Path

from keras_msd.checks import InputError, existing_file, nearest

SHARED = "_shared"
RENAMED = {"base": SHARED, "base_lealla": "_shared_lealla"}


@cache
def recipe_folder() -> Path:
    """Return the folder that holds the recipe files."""
    # A wheel carries the folder inside this package, a checkout beside keras_msd.
    inside = Path(__file__).parents[1] / "configs"
    return (
        inside if inside.is_dir() else Path(__file__).resolve().parents[3] / "recipes"
    )


def recipe_files() -> dict[str, Path]:
    """Return the path of every recipe by name, without the shared values."""
    files = sorted(recipe_folder().glob("*.toml"))
    return {path.stem: path for path in files if not path.stem.startswith("_")}


def find_recipe(name: str | Path) -> Path:
    """Return the file of a recipe named, or given by its path.

    Raises:
        InputError: no recipe has that name, or no file is at that path.
    """
    text = str(name)
    if text.endswith(".toml") or Path(text).name != text:
        return existing_file(name, "recipe file")
    files = recipe_files()
    if text not in files:
        raise InputError(
            f"There is no recipe `{text}`. {nearest(text, files)} Known recipes: "
            f"{', '.join(files) or 'none'}. Give one of them, or the path of a "
            ".toml file."
        )
    return files[text]


def shared_file(recipe: Path, name: str, key: str) -> Path:
    """Return a file that `recipe` needs: beside it, else among the recipes.

    Args:
        recipe: The recipe's file.
        name: The file's name without .toml.
        key: Where the recipe says it.

    Raises:
        InputError: There is no such file.
    """
    places = list(dict.fromkeys([recipe.parent, recipe_folder()]))
    for folder in places:
        if (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    repair = f'extend "{SHARED}"' if key == "extends" else "write `paper` instead"
    if name in RENAMED:
        repair = f'write `extends = "{RENAMED[name]}"`, as it is called now'
    raise InputError(
        f'`{recipe}` says `{key} = "{name.rpartition("/")[2]}"`, but there is no '
        f"`{name}.toml` in {' or '.join(f'`{p}`' for p in places)}. Put it there, or "
        f"{repair}."
    )
