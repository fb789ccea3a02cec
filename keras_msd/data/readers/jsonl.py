"""JSON Lines: one object a line, under the keys that are in use for translations."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, utf8
from keras_msd.data.readers.lines import is_english, read_lines

KEYS = ("source", "target")


def read(path: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield (English, other language) of every line.

    A line is `{"source": ..., "target": ...}`, `{"en": ..., "<language>": ...}`, or
    `{"translation": {...}}` around either; other keys are passed over.

    Args:
        path: A `.jsonl` or `.jsonl.gz` file.
        language: Code of the language beside English.

    Raises:
        InputError: A line is no such object, or the file cannot be read.
    """
    for number, line in read_lines(path):
        item = _object(path, number, line)
        english = next((key for key in item if is_english(key)), None)
        # Some corpora say under `source` where a line is from: language keys go first.
        keys = (english, language) if english and language in item else KEYS
        source, target = (item.get(key) for key in keys)
        if not (isinstance(source, str) and isinstance(target, str)):
            raise InputError(
                f"`{path}`, line {number}: an object must have texts under `source` "
                f"and `target`, or under `en` and `{language}`. Received the keys: "
                f"{', '.join(map(repr, item)) or 'none'}. Rename them."
            )
        utf8(source + target, f"`{path}`, line {number}")
        yield source, target


def first_language(path: Path) -> str | None:
    """Return the one key of the first line that can be a language beside English."""
    number, line = next(read_lines(path))
    item = _object(path, number, line)
    if "target" in item or not any(is_english(key) for key in item):
        return None
    others = [
        key for key, text in item.items() if isinstance(text, str) and len(key) < 8
    ]
    others = [key for key in others if key != "id" and not is_english(key)]
    return others[0] if len(others) == 1 else None


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    item, fault = None, None
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        fault = error
    if isinstance(item, dict) and isinstance(item.get("translation"), dict):
        item = item["translation"]
    if not isinstance(item, dict):
        raise InputError(
            f"`{path}`, line {number}: a line must be a JSON object. Received: "
            f"{line!r:.80}{f' ({fault})' if fault else ''}. Write it as "
            '{"source": ..., "target": ...}.'
        ) from fault
    return item
