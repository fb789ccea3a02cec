"""Gettext catalogues: English in `msgid`, its translation in `msgstr`."""

import gettext
import re
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.readers import gettext_mo, gettext_po
from keras_msd.data.readers.gettext_entry import Entry

CODE = r"[a-z]{2,3}(?:[_@-][A-Za-z]+)*"
UNSET = "nplurals=INTEGER; plural=EXPRESSION;"  # what a new template holds
ONE, MANY = 1, 5  # 5 takes the form of unnamed numbers: 2 is a dual in Arabic


def read(path: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield (English, other language) of every entry that is translated.

    Fuzzy and obsolete entries, the header and empty translations are passed over; a
    context is no part of the text. An entry with plurals gives two pairs: the singular
    with the form for 1, the plural with the form for 5; where the language has one
    form for both, only the second. Texts are as written: accelerators, placeholders
    and line ends are the cleaning's affair.

    Args:
        path: A `.po` or `.mo` file, each also `.gz`. A `.po` is read line by line, a
            `.mo` as a whole.
        language: Code of the language beside English.

    Raises:
        InputError: The file breaks the format, names a character set that it is not
            in, has a plural rule that is no expression, or has no translation.
    """
    rule, found = "", False
    for entry in _entries(path):
        if entry.is_header:
            rule = _header(entry).get("Plural-Forms", "")  # in any case of letters
            continue
        for pair in _pairs(entry, rule, path):
            found = True
            yield pair
    if not found:
        raise InputError(
            f"`{path}` has no translated entry: all are empty, fuzzy or obsolete. Take "
            "a translated catalogue; a template (`.pot`) has none."
        )


def first_language(path: Path) -> str | None:
    """Return the language of the header, else of `xx.po` or `xx/LC_MESSAGES/*.mo`."""
    first = next(_entries(path), None)
    named = _header(first).get("Language", "") if first and first.is_header else ""
    folder = path.parent.parent.name if path.parent.name == "LC_MESSAGES" else ""
    # Three letters alone can be any word: `app.po`, `gui.po`.
    stem = Path(path.name.removesuffix(".gz")).stem.rpartition(".")[2]
    if re.fullmatch("[a-z]{3}", stem):
        stem = ""
    for code in (named.strip().partition(".")[0], folder, stem):
        if re.fullmatch(CODE, code):
            return code
    return None


def _entries(path: Path) -> Iterator[Entry]:
    binary = path.name.removesuffix(".gz").endswith(".mo")
    return (gettext_mo if binary else gettext_po).entries(path)


def _header(entry: Entry) -> Message:
    return HeaderParser().parsestr(entry.strings[0])


def _pairs(entry: Entry, rule: str, path: Path) -> Iterator[tuple[str, str]]:
    texts = entry.strings
    if len(entry.ids) == 1:
        chosen = [0]
    else:
        chosen = _forms(rule, path)
    for index in dict.fromkeys(chosen):
        # The last of two equal indices: one form for both is the plural's.
        english = entry.ids[-1] if index == chosen[-1] else entry.ids[0]
        if index < len(texts) and english and texts[index]:
            yield english, texts[index]


def _forms(rule: str, path: Path) -> list[int]:
    """Return which `msgstr[n]` stand for one and for many."""
    if not rule.strip() or "".join(rule.split()) == "".join(UNSET.split()):
        return [0, 1]
    match = re.search(r"plural\s*=([^;]*)", rule)
    try:
        if match is None:
            raise ValueError("no `plural=`")
        form = gettext.c2py(match[1])
        return [form(ONE), form(MANY)]
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(
            f"`{path}`: `Plural-Forms` in the header must be a rule such as "
            f"`nplurals=2; plural=(n != 1);`. Received: {rule!r:.80} ({error})."
        ) from error
