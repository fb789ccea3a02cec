"""Find recipe files: in the installed package first, in a checkout beside it."""

from importlib import resources
from pathlib import Path

from keras_msd.checks import InputError, existing_file, nearest

BASE = "base"


def recipe_folders() -> list[Path]:
    """Return the folders that hold recipe files, the installed one first."""
    folders = [Path(__file__).resolve().parents[2] / "recipes"]
    try:
        packaged = resources.files("keras_msd.recipes.configs")
    except ModuleNotFoundError:
        packaged = None
    if packaged is not None:
        # A folder without __init__.py may lie at several places of the path.
        found = {Path(str(item)).parent for item in packaged.iterdir()}
        folders = sorted(found) + folders
    return [folder for folder in folders if folder.is_dir()]


def recipe_files() -> dict[str, Path]:
    """Return the path of every recipe by name, without the shared base."""
    files: dict[str, Path] = {}
    for folder in recipe_folders():
        for path in sorted(folder.glob("*.toml")):
            files.setdefault(path.stem, path)
    files.pop(BASE, None)
    return dict(sorted(files.items()))


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
    places = [recipe.parent, *recipe_folders()]
    for folder in places:
        if (folder / f"{base}.toml").is_file():
            return folder / f"{base}.toml"
    raise InputError(
        f'`{recipe}` says `extends = "{base}"`, but there is no `{base}.toml` in '
        f"{' or '.join(f'`{p}`' for p in places)}. Put it there, or extend "
        f'"{BASE}".'
    )
