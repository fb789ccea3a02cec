"""JSON Lines: one object a line, under the keys that are in use for translations."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import (
    DirtyRows,
    read_lines,
    unpacked,
    without_blank_end,
)
from keras_msd.data.readers.records import language_of, pair_of, unwrapped

FORM = '{"source": ..., "target": ...}'


def read(
    path: Path,
    language: str,
    source: str = ENGLISH,
    dirty: DirtyRows | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every line.

    A line is `{"source": ..., "target": ...}`, `{"<source>": ..., "<language>": ...}`,
    `{"english": ..., "non_english": ...}`, or `{"translation": {...}}` around one of
    them; other keys are passed over, and so are blank lines at the end.

    Args:
        path: A `.jsonl`, `.ndjson` or `.json` file.
        language: Code of the translations' language.
        source: Code of the other language.
        dirty: Which lines may be skipped; by default none.
        columns: The keys of both texts, where they are others.

    Raises:
        InputError: A line is no such object, or the file cannot be read.
    """
    dirty = dirty or DirtyRows(0)
    for number, line in without_blank_end(read_lines(path, dirty)):
        try:
            item = json_object(path, number, line)
            where = f"`{path}`, line {number}"
            texts = pair_of(item, language, source, where, "an object", columns)
        except InputError as error:
            dirty.skip(error)
            continue
        yield texts


def first_language(path: Path) -> str | None:
    """Return the one key of the first line that can be a language beside English."""
    number, line = next(read_lines(path))
    return language_of(json_object(path, number, line))


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
    if not isinstance(item, dict):
        repair = f"Write it as {form}."
        if number == 1 and line.lstrip()[:1] in ("[", "{"):  # one value in many lines
            items = "-c '.[]'" if line.lstrip()[0] == "[" else "-c ."
            name = unpacked(path).with_suffix(".jsonl").name
            if name == path.name:  # the shell would empty it before it is read
                name = f"lines.{name}"
            command = f"jq {items} {path.name} > {name}"
            repair = f"Write one object a line, such as {form}: {command}"
        raise InputError(
            f"`{path}`, line {number}: a line must be a JSON object. Received: "
            f"{line!r:.80}{f' ({fault})' if fault else ''}. {repair}"
        ) from fault
    return unwrapped(item)
