"""Ready export settings: one TOML file each, in the folder export/."""

import tomllib
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_file, nearest

KEYS = {
    "description": str,
    "format": str,
    "quantize": str,
    "min_cosine": float,
    "min_neighbours": float,
    "max_sts_loss": float,
}


def presets_folder() -> Path:
    """Return the folder of settings and of scripts that load an artefact."""
    # A wheel carries the folder inside this package, a checkout beside keras_msd.
    inside = Path(__file__).parent / "presets"
    return inside if inside.is_dir() else Path(__file__).resolve().parents[2] / "export"


def read_preset(name: str | Path) -> dict[str, Any]:
    """Read export settings: arguments of `export` and a `description`.

    Args:
        name: A name such as "saved_model", or the path of a `.toml` file.

    Raises:
        InputError: The file is missing or is not TOML, or a key is unknown, missing or
            of another type.
    """
    known = sorted(path.stem for path in presets_folder().glob("*.toml"))
    if str(name) in known:
        path = presets_folder() / f"{name}.toml"
    elif str(name).endswith(".toml"):
        path = existing_file(name, "export settings")
    else:
        raise InputError(
            f"There are no export settings `{name}`. {nearest(str(name), known)} "
            f"Known: {', '.join(known)}. Give one of them, or the path of a .toml file."
        )
    try:
        preset = tomllib.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"`{path}` is not valid TOML: {error}. Repair it.") from error
    for key, value in preset.items():
        if type(value) is int and KEYS.get(key) is float:
            preset[key] = value = float(value)
        if key not in KEYS:
            raise InputError(
                f"Unknown key `{key}` in `{path}`. {nearest(key, KEYS)} "
                f"Allowed here: {', '.join(KEYS)}."
            )
        if not isinstance(value, KEYS[key]):
            raise InputError(
                f"`{key}` in `{path}` must be a {KEYS[key].__name__}. "
                f"Received: {value!r}."
            )
    if "format" not in preset:
        raise InputError(f"Key `format` is missing in `{path}`. Add it.")
    return preset
