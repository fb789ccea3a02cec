"""Find recipe files: in the installed package first, in a checkout beside it."""

from pathlib import Path

from keras_msd.checks import InputError, existing_file, nearest

BASE = "base"


def recipe_folder() -> Path:
    """Return the folder that holds the recipe files."""
    # A wheel carries the folder inside this package, a checkout beside keras_msd.
    inside = Path(__file__).parents[1] / "configs"
    return (
        inside if inside.is_dir() else Path(__file__).resolve().parents[3] / "recipes"
    )


def recipe_files() -> dict[str, Path]:
    """Return the path of every recipe by name, without the shared bases."""
    files = sorted(recipe_folder().glob("*.toml"))
    return {path.stem: path for path in files if not is_base(path.stem)}


def is_base(name: str) -> bool:
    """Tell whether a file holds shared values: `base`, or `base_` and a paper."""
    return name == BASE or name.startswith(f"{BASE}_")


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


def find_base(recipe: Path, base: str) -> Path:
    """Return the file that `recipe` extends: beside it, else among the recipes."""
    places = list(dict.fromkeys([recipe.parent, recipe_folder()]))
    for folder in places:
        if (folder / f"{base}.toml").is_file():
            return folder / f"{base}.toml"
    raise InputError(
        f'`{recipe}` says `extends = "{base}"`, but there is no `{base}.toml` in '
        f"{' or '.join(f'`{p}`' for p in places)}. Put it there, or extend "
        f'"{BASE}".'
    )
