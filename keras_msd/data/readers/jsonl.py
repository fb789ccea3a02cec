"""JSON Lines: one object a line, under the keys that are in use for translations."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, utf8
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import is_english, read_lines

KEYS = ("source", "target")
FORM = '{"source": ..., "target": ...}'


def read(path: Path, language: str, source: str = ENGLISH) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every line.

    A line is `{"source": ..., "target": ...}`, `{"<source>": ..., "<language>": ...}`,
    or `{"translation": {...}}` around either; other keys are passed over.

    Args:
        path: A `.jsonl` or `.jsonl.gz` file.
        language: Code of the translations' language.
        source: Code of the other language.

    Raises:
        InputError: A line is no such object, or the file cannot be read.
    """
    for number, line in read_lines(path):
        item = json_object(path, number, line)
        first: str | None = source
        if source == ENGLISH:
            first = next((key for key in item if is_english(key)), None)
        # Some corpora say under `source` where a line is from: language keys go first.
        keys = (first, language) if first in item and language in item else KEYS
        found = (item.get(str(key)) for key in keys)
        texts = [text for text in found if isinstance(text, str)]
        if len(texts) != len(keys):
            raise InputError(
                f"`{path}`, line {number}: an object must have texts under `source` "
                f"and `target`, or under `{source}` and `{language}`. Received the "
                f"keys: {', '.join(map(repr, item)) or 'none'}. Rename them."
            )
        utf8("".join(texts), f"`{path}`, line {number}")
        yield texts[0], texts[1]


def first_language(path: Path) -> str | None:
    """Return the one key of the first line that can be a language beside English."""
    number, line = next(read_lines(path))
    item = json_object(path, number, line)
    if "target" in item or not any(is_english(key) for key in item):
        return None
    others = [
        key for key, text in item.items() if isinstance(text, str) and len(key) < 8
    ]
    others = [key for key in others if key != "id" and not is_english(key)]
    return others[0] if len(others) == 1 else None


def json_object(path: Path, number: int, line: str, form: str = FORM) -> dict[str, Any]:
    """Return the object of a line, or the one under its key `translation`.

    Args:
        path: The file, for messages.
        number: Number of the line, for messages.
        line: The line.
        form: How a line is to be written, for messages.

    Raises:
        InputError: The line is no JSON object.
    """
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
            f"{line!r:.80}{f' ({fault})' if fault else ''}. Write it as {form}."
        ) from fault
    return item
