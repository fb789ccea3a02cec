"""Pairs from rows whose parts have names: objects of JSON, columns of tables."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from keras_msd.checks import InputError, utf8
from keras_msd.data.pair import ENGLISH, Pair, Pairs
from keras_msd.data.readers.lines import is_english

KEYS = ("source", "target")
HUB_KEYS = ("english", "non_english")  # of the sets `parallel-sentences-*` on the hub
UNKNOWN = "und"  # ISO 639-2: undetermined
CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?")


def pair_of(
    row: Mapping[str, Any], language: str, source: str, where: str, what: str = "a row"
) -> tuple[str, str]:
    """Return source and translation of a row.

    They stand under the codes of their languages, of English also with a country; or
    under `source` and `target`; or under `english` and `non_english`. Other names are
    passed over.

    Args:
        row: Its texts by name.
        language: Code of the translation's language.
        source: Code of the other language.
        where: The row's place, for messages.
        what: What a row is called, for messages.

    Raises:
        InputError: It has no such texts.
    """
    first: str | None = source
    if source == ENGLISH:
        first = next((name for name in row if is_english(str(name))), None)
    # Some corpora say under `source` where a line is from: languages go first.
    known = [(first, language), KEYS, *([HUB_KEYS] if source == ENGLISH else [])]
    keys = next((keys for keys in known if all(key in row for key in keys)), KEYS)
    found = (row.get(str(key)) for key in keys)
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) != len(keys):
        names = ", ".join(map(repr, row)) or "none"
        other = {str(key): row.get(str(key)) for key in keys if key in row}
        values = f", with {other!r:.80}" if other else ""
        raise InputError(
            f"{where}: {what} must have texts under `source` and `target`, under "
            f"`{source}` and `{language}`, or under `english` and `non_english`. "
            f"Received the keys: {names}{values}. Rename them, or remove what has no "
            "text."
        )
    utf8("".join(texts), where)
    return texts[0], texts[1]


def language_of(names: Iterable[Any]) -> str | None:
    """Return the one name that can be the code of a language beside English."""
    names = [name for name in names if isinstance(name, str)]
    if "target" in names or not any(map(is_english, names)):
        return None
    others = [name for name in names if CODE.fullmatch(name) and not is_english(name)]
    others = [name for name in others if name != "id"]
    return others[0] if len(others) == 1 else None


def unwrapped(row: Mapping[str, Any]) -> Any:
    """Return the row, or the one that it has under the name `translation`."""
    inner = row.get("translation")
    return inner if isinstance(inner, Mapping) else row


def pairs_of_rows(
    rows: Any, language: str | None = None, source_language: str | None = None
) -> Pairs:
    """Return pairs that are in memory.

    Args:
        rows: A pandas `DataFrame`; or an iterable of mappings, such as rows of Hugging
            Face datasets, of `(source, target)` tuples or lists, or of `Pair`s.
        language: Code of the translations' language, where no name says it; without
            either it is "und".
        source_language: Code of the sources' language, where it is not English.

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
        _pair(row, language, source, f"`pairs`, row {number}")
        for number, row in enumerate(rows, 1)
    )


def _pair(row: Any, language: str | None, source: str, where: str) -> Pair:
    if isinstance(row, Mapping):
        row = unwrapped(row)
        code = language or language_of(row) or UNKNOWN
        return Pair(*pair_of(row, code, source, where), code, source)
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
