"""Encoders that come in packages of their own, beside the library."""

import hashlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.files import read_table

# Of each: its module, how it is installed, the SHA-256 of its files, which
# tools/package_encoder.py writes, and what cards of its artefacts say.
TABLE = Path(__file__).with_name("packaged.json")


def is_packaged(source: Any) -> bool:
    """Tell whether a source is the name of a packaged encoder.

    A folder or file of that name comes first.
    """
    named = isinstance(source, str | Path) and str(source) in read_table(TABLE)
    return named and not Path(source).exists()


def packaged_names() -> list[str]:
    """Return the names of all packaged encoders, installed or not."""
    return sorted(read_table(TABLE))


def is_installed(name: str) -> bool:
    """Tell whether the package of an encoder is there, whatever version it has."""
    return find_spec(read_table(TABLE)[name]["module"]) is not None


def packaged_folder(name: str) -> Path:
    """Return the folder of a packaged encoder, compared with what the library knows.

    Args:
        name: A key of packaged.json, such as "tiny12".

    Raises:
        InputError: The package is not installed, or holds no encoder or another one.
    """
    record = read_table(TABLE)[name]
    module, repair = record["module"], f"In a checkout: {record['install']}"
    try:
        folder = import_module(module).FOLDER
    except ImportError as error:
        raise InputError(
            f"The encoder `{name}` is in a package of its own, `{module}`, which is "
            f"not installed. {repair}"
        ) from error
    found = files_sha256(folder) if folder.is_dir() else "no files"
    if found != record["sha256"]:
        raise InputError(
            f"The files of the encoder `{name}` must have the SHA-256 that this library"
            f" knows, {record['sha256'] or 'none yet'}. Received: {found} in "
            f"`{folder}`. Install both from one place. {repair}"
        )
    return folder


def packaged_card(name: str) -> dict[str, Any]:
    """Return what the card of an artefact says of a packaged encoder."""
    return dict(read_table(TABLE)[name]["card"])


def files_sha256(folder: Path) -> str:
    """Return one SHA-256 of all files in a folder: of `sha256sum`'s lines, by name.

    In a shell: `LC_ALL=C; sha256sum $(find * -type f | sort) | sha256sum`.
    """
    lines = []
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as handle:
                of_file = hashlib.file_digest(handle, "sha256").hexdigest()
            lines.append((path.relative_to(folder).as_posix(), of_file))
    text = "".join(f"{of_file}  {name}\n" for name, of_file in sorted(lines))
    return hashlib.sha256(text.encode()).hexdigest()
