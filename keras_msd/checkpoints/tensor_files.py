"""The safetensors files of a checkpoint folder, seen as one set of tensors."""

from pathlib import Path

import numpy as np
import safetensors

from keras_msd.checks import InputError
from keras_msd.files import read_json

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
FLOATS = ("F64", "F32", "F16", "BF16")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")


class TensorFiles:
    """Tensors of `model.safetensors`, or of the shards that its index names.

    Only the headers are read at first; `read` fetches one tensor.

    Args:
        folder: Where the files are.

    Attributes:
        shapes: Shape of every tensor, by its name in the file.

    Raises:
        InputError: There is no such file, one is cut short or damaged, or the index
            and the shards disagree.
    """

    def __init__(self, folder: Path) -> None:
        """Read the headers."""
        self.folder = folder
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._dtypes: dict[str, str] = {}
        self._files: dict[str, safetensors.safe_open] = {}
        for name, expected in _shards(folder).items():
            file = _open(folder / name)
            found = set(file.keys())
            if expected is not None and (wrong := sorted(found ^ expected)):
                raise InputError(
                    f"`{folder / INDEX}` and `{name}` must hold the same names. "
                    f"Received: `{wrong[0]}` in only one of them. Take a whole copy "
                    "of the checkpoint."
                )
            for key in found:
                view = file.get_slice(key)
                self.shapes[key] = tuple(view.get_shape())
                self._dtypes[key] = view.get_dtype()
                self._files[key] = file

    def check(self, key: str, shape: tuple[int, ...]) -> None:
        """Raise `InputError` unless `key` is there, of that shape, and of floats."""
        if key not in self.shapes:
            raise InputError(
                f"`{self.folder}` lacks the tensor `{key}`. Take a whole copy of the "
                "checkpoint, and check the layer count in its config.json."
            )
        if self.shapes[key] != shape:
            raise InputError(
                f"`{key}` must have the shape {shape}, as config.json says. Received: "
                f"{self.shapes[key]} in `{self.folder}`. Take both files from the "
                "same checkpoint."
            )
        if self._dtypes[key] not in FLOATS:
            raise InputError(
                f"`{key}` must be one of {', '.join(FLOATS)}. Received: "
                f"{self._dtypes[key]} in `{self.folder}`. Give a checkpoint that is "
                "not quantised."
            )

    def read(self, key: str) -> np.ndarray:
        """Return one tensor as float32."""
        return np.asarray(self._files[key].get_tensor(key), np.float32)


def _shards(folder: Path) -> dict[str, set[str] | None]:
    """Return file name -> the names it must hold (None: any)."""
    if (folder / INDEX).is_file():
        index = read_json(folder / INDEX)
        if not isinstance(index, dict) or not isinstance(index.get("weight_map"), dict):
            raise InputError(
                f"`{folder / INDEX}` must have a table `weight_map`. Take a whole copy "
                "of the checkpoint."
            )
        shards: dict[str, set[str] | None] = {}
        for key, name in index["weight_map"].items():
            if not isinstance(name, str) or Path(name).name != name:
                raise InputError(
                    f"`weight_map` in `{folder / INDEX}` must name files of that "
                    f"folder. Received: {name!r} for `{key}`."
                )
            shards.setdefault(name, set()).add(key)  # type: ignore[union-attr]
        return shards
    if (folder / SINGLE).is_file():
        return {SINGLE: None}
    for pattern in PICKLES:
        if found := sorted(folder.glob(pattern)):
            raise InputError(
                f"Weights are read from safetensors only. Received: `{found[0]}`, a "
                "format that can run code when it is read. Repair: load the model "
                "with `transformers` where you trust it and write it again with "
                f'`model.save_pretrained("{folder}")`, which makes `{SINGLE}`.'
            )
    raise InputError(
        f"`{folder}` has no `{SINGLE}` and no `{INDEX}`. Give the folder of a "
        "checkpoint saved with safetensors."
    )


def _open(path: Path) -> safetensors.safe_open:
    try:
        return safetensors.safe_open(path, framework="np")
    except FileNotFoundError as error:
        raise InputError(
            f"The shard `{path}` does not exist, yet `{INDEX}` names it. Take a whole "
            "copy of the checkpoint."
        ) from error
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(
            f"`{path}` is cut short or damaged ({error}). Copy or download it again."
        ) from error
