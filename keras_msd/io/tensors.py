"""Tensors in a safetensors file, whose shapes are known before any is read."""

from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from keras_msd.checks import InputError
from keras_msd.io.files import TENSOR_HEADER

WHOLE = "Take a complete copy of the checkpoint."
DAMAGED = "Copy or download it again."
POINTER = b"version https://git-lfs"  # in place of a file, without Git LFS
FLOATS = ("F64", "F32", "F16", "BF16")
INT8, UINT8 = ("I8",), ("U8",)


class TensorFile:
    """Tensors of a safetensors file.

    Only the header is read at first; `read` fetches one tensor.

    Args:
        path: The file.
        settings: Name of the file that decides the shapes, for messages.

    Attributes:
        shapes: Shape of every tensor, by its name in the file.

    Raises:
        InputError: The file is cut short or damaged, or has a header over the limit.
    """

    def __init__(self, path: Path, settings: str = "config.json") -> None:
        """Read the header."""
        self.folder, self.settings = path.parent, settings
        self._file = _open(path)
        views = {key: self._file.get_slice(key) for key in self._file.keys()}
        self.shapes = {key: tuple(view.get_shape()) for key, view in views.items()}
        self._dtypes = {key: view.get_dtype() for key, view in views.items()}

    def check(
        self, key: str, shape: tuple[int, ...], dtypes: tuple[str, ...] = FLOATS
    ) -> None:
        """Raise `InputError` unless `key` is there, of that shape and a known dtype."""
        if key not in self.shapes:
            raise InputError(
                f"`{self.folder}` lacks the tensor `{key}`. Take a whole copy of it, "
                f"and check the layer count in its {self.settings}."
            )
        found = self.shapes[key], self._dtypes[key]
        if found[0] != shape or found[1] not in dtypes:
            raise InputError(
                f"`{key}` must have the shape {shape}, as {self.settings} says, and be "
                f"one of {', '.join(dtypes)}. Received: {found[0]}, {found[1]} in "
                f"`{self.folder}`. Take both files from the same folder."
            )

    def read(self, key: str) -> np.ndarray:
        """Return one tensor as float32; raise `InputError` unless all is finite."""
        with np.errstate(over="ignore"):  # larger than float32 holds is infinite
            array = np.asarray(self._file.get_tensor(key), np.float32)
        if not np.isfinite(array).all():
            raise InputError(
                f"`{key}` must be finite numbers. Received: NaN or infinity in "
                f"`{self.folder}`. Take the weights from before they were damaged."
            )
        return array


def _open(path: Path) -> Any:
    try:
        with open(path, "rb") as handle:
            start = handle.read(len(POINTER))
        if start == POINTER:
            raise InputError(
                f"`{path}` must be a safetensors file. Received: a pointer of Git LFS. "
                "Run in its folder: git lfs install && git lfs pull"
            )
        length = int.from_bytes(start[:8], "little")
        TENSOR_HEADER.check(length, f"`{path}`", DAMAGED)
        return safetensors.safe_open(path, framework="np")
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(
            f"`{path}` is not a whole safetensors file: it is cut short or damaged "
            f"({error}). {DAMAGED}"
        ) from error
