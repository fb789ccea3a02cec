"""Languages by their codes of ISO 639 and by their names."""

import re
from functools import cache
from pathlib import Path

from keras_msd.checks import InputError

# Codes of countries that are taken for those of their languages, and former codes.
MISTAKEN = {
    **{"cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "ir": "fa", "jp": "ja"},
    **{"kr": "ko", "ua": "uk", "vn": "vi", "iw": "he", "in": "id", "mo": "ro"},
}
CODE = re.compile("[a-z]{2,3}([-_][A-Za-z0-9]{2,4})*")
TABLE = Path(__file__).with_name("languages.txt")


@cache
def languages() -> dict[str, list[str]]:
    """Return the names of each two-letter code, English ones first."""
    rows = TABLE.read_text(encoding="utf-8").splitlines()
    parts = (row.split("\t") for row in rows)
    return {codes.split()[0]: names.split(", ") for codes, names in parts}


@cache
def _codes() -> dict[str, str]:
    """Return the two-letter code of every code."""
    rows = TABLE.read_text(encoding="utf-8").splitlines()
    groups = (row.split("\t")[0].split() for row in rows)
    return {code: group[0] for group in groups for code in group}


@cache
def _names() -> dict[str, str]:
    """Return the two-letter code of every name, in lower case."""
    return {name.casefold(): code for code, of in languages().items() for name in of}


def code_of(text: str) -> str | None:
    """Return the two-letter code of a code, which may have a script or a country.

    Example:
        >>> from keras_msd.data.languages import code_of
        >>> code_of("zho_Hans"), code_of("EN-us"), code_of("house")
        ('zh', 'en', None)
    """
    first, *rest = re.split("[-_]", text.strip().casefold())
    if not all(part.isalnum() and 2 <= len(part) <= 4 for part in rest):
        return None
    return _codes().get(first)


def code_of_name(text: str) -> str | None:
    """Return the two-letter code of a language's name, in English or its own.

    Example:
        >>> from keras_msd.data.languages import code_of_name
        >>> code_of_name("Turkish"), code_of_name("Türkçe"), code_of_name("tr")
        ('tr', 'tr', None)
    """
    return _names().get(text.strip().casefold())


def same_language(one: str, other: str) -> bool:
    """Tell whether two codes are of one language, whatever country they name."""
    return _language(one) == _language(other)


def _language(code: str) -> str:
    return code_of(code) or re.split("[-_]", code.casefold())[0]


def check_code(**named: str | None) -> None:
    """Raise `InputError` unless every named value is the code of a language, or None.

    Of codes with three letters, which are thousands, the form alone is checked.
    """
    for name, code in named.items():
        if code is None:
            continue
        first = re.split("[-_]", code)[0]
        known = len(first) == 3 or first in languages()
        if not CODE.fullmatch(code) or not known:
            meant = code_of_name(code) or MISTAKEN.get(first.lower()) or code_of(code)
            hint = f"Did you mean `{meant}`?" if meant else "Look it up in ISO 639."
            raise InputError(
                f"`{name}` must be the code of a language, such as de, deu or pt_BR. "
                f"Received: {name}={code!r:.40}. {hint}"
            )
