"""The files of one checkpoint of a training."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_msd.io.files import DamagedError, atomic_path, file_digest

STATE, CHECKSUM = "state.safetensors", "checksum.txt"
STATES = "callback/"  # prefix of the names of arrays in the facts


def write_checkpoint(
    path: Path, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a checkpoint, complete or not at all.

    Args:
        path: Its folder.
        facts: What JSON can hold, and arrays.
        arrays: Arrays by name.
    """
    stored = dict(arrays)

    def named(array: np.ndarray) -> dict[str, str]:
        name = f"{STATES}{len(stored)}"
        stored[name] = array
        return {"array": name}

    text = json.dumps(facts, default=named)
    with atomic_path(path) as temporary:
        temporary.mkdir()
        save_file(stored, temporary / STATE, {"facts": text})
        checksum = file_digest(temporary / STATE)
        (temporary / CHECKSUM).write_text(checksum, encoding="ascii")


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the facts and the arrays of a checkpoint.

    Raises:
        DamagedError: A file is missing or is not as it was written.
    """
    try:
        checksum = (path / CHECKSUM).read_text(encoding="ascii")
        if (received := file_digest(path / STATE)) != checksum:
            raise ValueError(f"checksum {received}, written was {checksum:.40}")
        with safe_open(path / STATE, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}
            text = file.metadata()["facts"]
    except (OSError, ValueError, SafetensorError) as error:
        raise DamagedError(f"`{path}` is damaged ({error})") from error

    def taken(found: dict[str, Any]) -> Any:
        return arrays.pop(found["array"]) if found.keys() == {"array"} else found

    return json.loads(text, object_hook=taken), arrays
