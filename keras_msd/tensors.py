"""Tensors in safetensors files: all is compared by the headers before any is read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from keras_msd.checks import InputError
from keras_msd.limits import TENSOR_HEADER

INDEX = "model.safetensors.index.json"
WHOLE = "Take a whole copy of the checkpoint."
DAMAGED = "Copy or download it again."
FLOATS = ("F64", "F32", "F16", "BF16")
INT8, UINT8 = ("I8",), ("U8",)


class TensorFiles:
    """Tensors of one safetensors file, or of several shards.

    Only the headers are read at first; `read` fetches one tensor.

    Args:
        folder: Where the files are.
        files: Name of each file -> the names that it must hold (None: any).
        settings: Name of the file that decides the shapes, for messages.

    Attributes:
        shapes: Shape of every tensor, by its name in the file.

    Raises:
        InputError: A file is cut short or damaged, has a header over the limit, or
            holds other names.
    """

    def __init__(
        self,
        folder: Path,
        files: Mapping[str, set[str] | None],
        settings: str = "config.json",
    ) -> None:
        """Read the headers."""
        self.folder, self.settings = folder, settings
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._dtypes: dict[str, str] = {}
        self._files: dict[str, Any] = {}
        for name, expected in files.items():
            file = _open(folder / name)
            keys = set(file.keys())
            if expected is not None and (wrong := sorted(keys ^ expected)):
                raise InputError(
                    f"`{folder / INDEX}` and `{name}` must hold the same names. "
                    f"Received: `{wrong[0]}` in only one of them. {WHOLE}"
                )
            for key in keys:
                view = file.get_slice(key)
                self.shapes[key] = tuple(view.get_shape())
                self._dtypes[key] = view.get_dtype()
                self._files[key] = file

    def check(
        self, key: str, shape: tuple[int, ...], dtypes: tuple[str, ...] = FLOATS
    ) -> None:
        """Raise `InputError` unless `key` is there, of that shape and a known dtype."""
        if key not in self.shapes:
            raise InputError(
                f"`{self.folder}` lacks the tensor `{key}`. Take a whole copy of it, "
                f"and check the layer count in its {self.settings}."
            )
        if self.shapes[key] != shape:
            raise InputError(
                f"`{key}` must have the shape {shape}, as {self.settings} says. "
                f"Received: {self.shapes[key]} in `{self.folder}`. Take both files "
                "from the same folder."
            )
        if self._dtypes[key] not in dtypes:
            repair = (
                "Give weights that are not quantised." if dtypes is FLOATS else DAMAGED
            )
            raise InputError(
                f"`{key}` must be one of {', '.join(dtypes)}. Received: "
                f"{self._dtypes[key]} in `{self.folder}`. {repair}"
            )

    def read(self, key: str) -> np.ndarray:
        """Return one tensor as float32; raise `InputError` unless all is finite."""
        with np.errstate(over="ignore"):  # larger than float32 holds is infinite
            array = np.asarray(self._files[key].get_tensor(key), np.float32)
        if not np.isfinite(array).all():
            raise InputError(
                f"`{key}` must be finite numbers. Received: NaN or infinity in "
                f"`{self.folder}`. Take the weights from before they were damaged."
            )
        return array


def _open(path: Path) -> Any:
    try:
        with open(path, "rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
        TENSOR_HEADER.check(length, f"`{path}`", DAMAGED)
        return safetensors.safe_open(path, framework="np")
    except FileNotFoundError as error:
        raise InputError(
            f"The shard `{path}` does not exist, yet `{INDEX}` names it. {WHOLE}"
        ) from error
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(
            f"`{path}` is not a whole safetensors file: it is cut short or damaged "
            f"({error}). {DAMAGED}"
        ) from error
