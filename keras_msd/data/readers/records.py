"""Pairs from rows whose parts have names: objects of JSON, columns of tables."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_msd.checks import InputError, utf8
from keras_msd.data.pair import ENGLISH, Pair, Pairs
from keras_msd.data.readers.lines import is_english

KEYS = ("source", "target")
# What columns are called; the second names are those of the parallel-sentences sets of
# the Hugging Face hub.
NAMES = (KEYS, ("english", "non_english"))
UNKNOWN = "und"  # ISO 639-2: undetermined
CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?")


def pair_of(
    row: Mapping[str, Any],
    language: str,
    source: str,
    where: str,
    what: str = "a row",
    columns: Sequence[str] | None = None,
) -> tuple[str, str]:
    """Return source and translation of a row.

    They stand under the codes of their languages, of English also with a country, under
    `source` and `target`, or under `english` and `non_english`; other names are passed
    over.

    Args:
        row: Its texts by name.
        language: Code of the translation's language.
        source: Code of the other language.
        where: The row's place, for messages.
        what: What a row is called, for messages.
        columns: The names of both texts, where they are others.

    Raises:
        InputError: It has no such texts.
    """
    keys: Sequence[str | None] = columns or _keys(row, language, source)
    found = (row.get(str(key)) for key in keys)
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) != len(keys):
        names = ", ".join(map(repr, row)) or "none"
        other = {str(key): row.get(str(key)) for key in keys if key in row}
        values = f", with {other!r:.80}" if other else ""
        places = f"under `source` and `target`, or under `{source}` and `{language}`"
        repair = 'Name the columns, as in `columns=["text", "translation"]`'
        if columns:
            places, repair = "under `{}` and `{}`".format(*columns), "Correct `columns`"
        raise InputError(
            f"{where}: {what} must have texts {places}. Received the keys: "
            f"{names}{values}. {repair}, or remove what has no text."
        )
    utf8("".join(texts), where)
    return texts[0], texts[1]


def _keys(row: Mapping[str, Any], language: str, source: str) -> Sequence[str | None]:
    first: str | None = source
    if source == ENGLISH:
        first = next((name for name in row if is_english(str(name))), None)
    # Some corpora say under `source` where a line is from: languages go first.
    if first in row and language in row:
        return first, language
    known = NAMES if source == ENGLISH else (KEYS,)
    return next((keys for keys in known if row.keys() >= {*keys}), KEYS)


def named_columns(
    columns: Sequence[str] | None, names: Sequence[str], where: str
) -> Sequence[str] | None:
    """Return the names of two columns that are given by name or by number from 1.

    Raises:
        InputError: A table has no such column.
    """
    if columns is None:
        return None
    found = []
    for column in columns:
        place = int(column) if column.isdecimal() and column not in names else 0
        if 1 <= place <= len(names):
            column = names[place - 1]
        if column not in names:
            raise InputError(
                f"{where}: `columns` must be among {', '.join(map(repr, names))}, or "
                f"numbers from 1. Received: {column!r}. Correct `columns`."
            )
        found.append(column)
    return found


def language_of(names: Iterable[Any]) -> str | None:
    """Return the one name that can be the code of a language beside English."""
    names = [name for name in names if isinstance(name, str)]
    named = any({*keys} <= {*names} for keys in NAMES)
    if named or "target" in names or not any(map(is_english, names)):
        return None
    others = [name for name in names if CODE.fullmatch(name) and not is_english(name)]
    others = [name for name in others if name != "id"]
    return others[0] if len(others) == 1 else None


def unwrapped(row: Mapping[str, Any]) -> Any:
    """Return the row, or the one that it has under the name `translation`."""
    inner = row.get("translation")
    return inner if isinstance(inner, Mapping) else row


def pairs_of_rows(
    rows: Any,
    language: str | None = None,
    source_language: str | None = None,
    columns: Sequence[str] | None = None,
) -> Pairs:
    """Return pairs that are in memory.

    Args:
        rows: A pandas `DataFrame`; or an iterable of mappings, such as rows of Hugging
            Face datasets, of `(source, target)` tuples or lists, or of `Pair`s.
        language: Code of the translations' language, where no name says it; without
            either it is "und".
        source_language: Code of the sources' language, where it is not English.
        columns: The names of both texts, where they are not those of `read_pairs`.

    Raises:
        InputError: A row is none of these, or there is none.

    Example:
        >>> from keras_msd.data.readers.records import pairs_of_rows
        >>> list(pairs_of_rows([{"en": "A house.", "de": "Ein Haus."}]))
        [Pair(source='A house.', target='Ein Haus.', language='de',
              source_language='en')]
    """
    if isinstance(rows, Mapping):
        raise InputError(
            "`pairs` must be rows. Received: a mapping with the keys "
            f"{', '.join(map(repr, rows))!s:.80}. Give one of its values, such as the "
            'split `pairs["train"]`.'
        )
    if hasattr(rows, "itertuples"):  # a data frame
        rows = rows.to_dict("records")
    source = source_language or ENGLISH
    return Pairs.from_list(
        _pair(row, language, source, f"`pairs`, row {number}", columns)
        for number, row in enumerate(rows, 1)
    )


def _pair(
    row: Any,
    language: str | None,
    source: str,
    where: str,
    columns: Sequence[str] | None,
) -> Pair:
    if isinstance(row, Mapping):
        row = unwrapped(row)
        code = language or language_of(row) or UNKNOWN
        texts = pair_of(row, code, source, where, columns=columns)
        return Pair(*texts, code, source)
    if isinstance(row, tuple | list) and all(isinstance(text, str) for text in row):
        if len(row) == len(KEYS):
            first, second = row
            return Pair(first, second, language or UNKNOWN, source)
        if isinstance(row, tuple) and len(row) in (3, 4):
            return Pair(*row)
    raise InputError(
        f"{where}: a row must be (source, target) of two texts, or have them under "
        f"`source` and `target`. Received: {row!r:.80}."
    )
