"""Where an artefact may be written: nothing of anybody else is ever replaced."""

from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.export.card import CARD, TEXT, card_files


def check_target(path: str | Path) -> None:
    """Raise `InputError` unless an artefact may be written at `path`.

    It may where nothing is or an empty folder, and in place of an earlier artefact that
    has no other files in it.
    """
    folder = Path(path).resolve()
    if folder in (Path.cwd(), *Path.cwd().parents):
        raise InputError(
            f"An artefact needs a folder of its own. Received: `{path}`, which holds "
            "the working directory. Give a new path."
        )
    if files := [one for one in folder.parents if one.is_file()]:
        raise InputError(
            f"`{path}` lies under `{files[0]}`, which is a file. Give a path under a "
            "folder."
        )
    if folder.is_file():
        raise InputError(
            f"`{path}` is a file, and an artefact is a folder. Give a new path."
        )
    if folder.is_dir() and any(folder.iterdir()):
        _check_replaceable(folder)


def _check_replaceable(folder: Path) -> None:
    try:
        own = {*card_files(folder / CARD), CARD, TEXT}
    except InputError as error:
        raise InputError(
            f"`{folder}` exists and is no artefact: it has no whole {CARD}. Give a new "
            "path, or move it away."
        ) from error
    inside = (one for one in folder.rglob("*") if one.is_symlink() or not one.is_dir())
    foreign = [
        name
        for name in sorted(one.relative_to(folder).as_posix() for one in inside)
        # Python leaves its cache beside the tokenizer's reader.
        if name not in own and not name.startswith("__pycache__/")
    ]
    if foreign:
        shown = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        raise InputError(
            f"`{folder}` is an artefact that would be replaced, and would lose files "
            f"that are none of its own: {shown}. Give a new path, or move them away."
        )
