"""Languages: their codes, their names, and the encodings of their texts."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from keras_msd.checks import InputError

# Codes of countries that are taken for those of their languages, and former codes.
MISTAKEN = {
    **{"cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "ir": "fa", "jp": "ja"},
    **{"kr": "ko", "ua": "uk", "vn": "vi", "iw": "he", "in": "id", "mo": "ro"},
}
CODE = re.compile("[a-z]{2,3}([-_][A-Za-z0-9]{2,4})*")
TABLE = Path(__file__).with_name("languages.txt")
# Languages, their encodings as iconv and Python know them, usual ones first, and their
# letters beyond ASCII. Of scripts with many letters: the frequent ones.
CHARSETS = Path(__file__).with_name("charsets.txt")
WESTERN = "WINDOWS-1252"
OTHER_NAMES = {"CP932": "Shift_JIS", "CP949": "EUC-KR", "CP874": "TIS-620"}
PARTLY = ("GB18030", "BIG5", "CP949")  # their letters make about half of a text
ENOUGH = 0.45  # share of characters beyond ASCII that are such letters
GREEK = "\u0370"  # the first letter of a script that is not Latin
DENSE = 0.2  # share of bytes beyond ASCII in scripts that are not Latin


@cache
def _table() -> list[tuple[list[str], list[str]]]:
    """Return codes, of two letters first, and names, English ones first."""
    rows = TABLE.read_text(encoding="utf-8").splitlines()
    parts = (row.split("\t") for row in rows)
    return [(codes.split(), names.split(", ")) for codes, names in parts]


@cache
def languages() -> dict[str, list[str]]:
    """Return the names of each two-letter code, English ones first."""
    return {codes[0]: names for codes, names in _table()}


@cache
def three_letters() -> dict[str, str]:
    """Return the three-letter code of each two-letter code."""
    return {codes[0]: codes[1] for codes, _ in _table()}


@cache
def _codes() -> dict[str, str]:
    """Return the two-letter code of every code."""
    return {code: codes[0] for codes, _ in _table() for code in codes}


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


class Charset(NamedTuple):
    """An encoding, and the language that a text has in it, if that is clear."""

    name: str
    language: str | None = None

    def __str__(self) -> str:
        other = OTHER_NAMES.get(self.name)
        return f"{self.name} ({other})" if other else self.name


def likely_charset(data: bytes, codes: Iterable[str] = ()) -> Charset:
    """Return the encoding in which a text has the letters of its language.

    Args:
        data: The text, not UTF-8.
        codes: Codes of the languages that it may be in; none for any.

    Returns:
        WINDOWS-1252 without a language, if no language fits.

    Example:
        >>> from keras_msd.data.languages import likely_charset
        >>> likely_charset("Kapı açık, değil mi?".encode("iso-8859-9"))
        Charset(name='ISO-8859-9', language='tr')
    """
    asked = {code_of(code) for code in codes} - {"en", None}
    dense = sum(byte > 127 for byte in data) > DENSE * len(data)
    best, found = (0.0 if asked else ENOUGH), Charset(WESTERN)
    for row in CHARSETS.read_text(encoding="utf-8").splitlines():
        of_row, charsets, letters = row.split("\t")
        own = [code for code in of_row.split() if code in asked]
        if not asked and (dense or max(letters) < GREEK):
            own = of_row.split()
        for charset in charsets.split() if own else ():
            if (score := _score(data, charset, letters)) > best:
                best, found = score, Charset(charset, own[0])
    return found


def language_name(code: str) -> str:
    """Return the English name of a language."""
    return languages()[code][0]


def _score(data: bytes, charset: str, letters: str) -> float:
    try:
        text = data.decode(charset)
    except UnicodeDecodeError:
        return 0.0
    signs = [sign for sign in text if sign > "\x7f"]
    small = sum(sign in letters for sign in signs)
    # Capitals count less: Russian in a wrong encoding is full of them.
    large = sum(sign not in letters and sign.lower() in letters for sign in signs)
    controls = sum(sign < "\xa0" for sign in signs)  # no text has them
    points = small + large / 2 - controls
    return points * (2 if charset in PARTLY else 1) / max(1, len(signs))
