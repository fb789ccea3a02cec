"""Write nested settings as TOML text; the standard library only reads it."""

import json
import math
from collections.abc import Mapping
from typing import Any


def to_toml(value: Mapping[str, Any]) -> str:
    """Return TOML text that `tomllib` reads back to an equal value.

    Args:
        value: Nested mappings with string keys; leaves are strings, numbers, booleans
            and lists or tuples of those.
    """
    lines: list[str] = []
    _table(value, (), lines)
    return "\n".join(lines).strip() + "\n"


def _table(value: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    leaves = {k: v for k, v in value.items() if not isinstance(v, Mapping)}
    if path and (leaves or not value):
        lines.append(f"\n[{'.'.join(map(_key, path))}]")
    lines.extend(f"{_key(key)} = {_leaf(leaf)}" for key, leaf in leaves.items())
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            _table(inner, (*path, key), lines)


def _key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "")
    return key if bare.isascii() and bare.isalnum() else _text(key)


def _text(value: str) -> str:
    # TOML's basic strings take JSON's escapes; DEL is the one character JSON leaves.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _leaf(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_leaf, value)) + "]"
    return str(value)
