"""What besides recipe and data decides the bytes of a run: code and machine."""

import os
import platform
from collections.abc import Iterable
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from keras_msd.files import digest, file_digest

PACKAGE = Path(__file__).parents[2]
# Code that no step's files depend on; every other file of the package counts.
OUTSIDE = ("cli", "export", "report", "testing")
LIBRARIES = (
    *("jax", "keras", "keras-hub", "numpy", "scipy", "sentencepiece", "tensorflow"),
    *("tokenizers", "tensorflow-text"),
)
SWITCHES = ("OMP_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS", "TF_XLA_FLAGS", "XLA_FLAGS")


@lru_cache
def environment() -> dict[str, Any]:
    """Return hashes and names of code, libraries, backend, devices and switches."""
    import keras

    code = [
        part
        for path in sorted(PACKAGE.rglob("*"))
        if path.suffix in (".py", ".tsv")
        for part in (path.relative_to(PACKAGE).as_posix(), path.read_bytes())
        if not path.relative_to(PACKAGE).parts[0].startswith(OUTSIDE)
    ]
    installed = {one.name: one.version for one in metadata.distributions()}
    return {
        "code": digest(*code),
        "libraries": {name: installed.get(name) for name in LIBRARIES},
        "backend": keras.backend.backend(),
        "precision": [keras.config.floatx(), keras.config.dtype_policy().name],
        "devices": keras.distribution.list_devices(),
        "machine": platform.machine(),
        "switches": {name: os.environ.get(name) for name in SWITCHES},
    }


def file_digests(paths: Iterable[Path]) -> list[str]:
    """Return the hash of each file; one that did not change is read only once."""
    return [_digest(path, *_stamp(path)) for path in paths]


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=4096)
def _digest(path: Path, size: int, changed: int) -> str:
    return file_digest(path)
