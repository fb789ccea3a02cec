"""TMX: translation memories, read as a stream.

Source: LISA, "TMX 1.4b Specification" (2005).
"""

import codecs
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from keras_msd.checks import InputError, explained
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import is_english, open_bytes
from keras_msd.io.files import ELEMENTS_DEEP, UNIT

BLOCK = 1 << 16  # bytes that are read at a time
NAMED = 100  # languages that a message names
REPAIR = "It is no file as translation tools write it: export it again."
CODES = {"bpt", "ept", "it", "ph", "ut"}  # elements that hold markup, not text
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
REFERENCE = re.compile(r"&#(?:x([0-9A-Fa-f]{1,8})|([0-9]{1,9}));")
LONGEST = 16  # characters of a reference
ENCODING = re.compile(rb"<\?xml[^>]*encoding=[\"']([A-Za-z0-9._-]+)")
WIDE = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le"}

Unit = list[tuple[str, str]]  # (language code, text) of each variant


def read(path: Path, languages: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every unit that has both languages.

    Variants with a country match, such as `en-US`, unless the requested code has a
    country itself. A unit with several translations yields several pairs.

    Args:
        path: A `.tmx` file.
        languages: Codes of the sources and of the translations.

    Raises:
        InputError: See `_units`; or the file has no unit in both languages.
    """
    seen, empty = set[str](), True
    for unit in _units(path):
        if len(seen) < NAMED:
            seen.update(code[:20] for code, _ in unit[:NAMED])
        firsts, others = (
            [text for code, text in unit if _is_language(code, language)]
            for language in languages
        )
        for other in others if firsts else ():
            empty = False
            yield firsts[0], other
    if empty:
        raise InputError(
            f"`{path}` has no unit in `{languages[0]}` and `{languages[1]}`. Languages "
            f"in it: {', '.join(sorted(seen)) or 'none'}. Give one of them as "
            "`language`."
        )


def language(path: Path) -> str | None:
    """Return the only other language of the first unit, None if there are several."""
    unit = next(_units(path), [])
    others = {code.split("-")[0] for code, _ in unit if not is_english(code)}
    return others.pop() if len(others) == 1 else None


def _units(path: Path) -> Iterator[Unit]:
    """Yield the variants of each unit; only one block of the file is in memory.

    Characters that XML forbids, also as references such as `&#x2;`, become blanks.

    Raises:
        InputError: The file is not well-formed XML, is not in the encoding that it
            names, or exceeds a limit of `keras_msd.io.files`. Expat itself refuses
            entities that expand to far more text than the file has.
    """
    parser: Any = XMLPullParser(("start", "end"))
    open_elements: list[Element] = []
    line, size = 1, 0  # characters since an element outside a unit ended
    with open_bytes(path) as handle, explained(partial(_broken, path), ParseError):
        for text in _allowed(path, handle):
            parser.feed(text)
            line, size = line + text.count("\n"), size + len(text)
            where = f"`{path}`, line {line}"
            for event, element in parser.read_events():
                if event == "start":
                    element.tag = element.tag.rpartition("}")[2]  # no namespace
                    open_elements.append(element)
                    ELEMENTS_DEEP.check(len(open_elements), where, REPAIR)
                    continue
                open_elements.pop()
                if any(outer.tag == "tu" for outer in open_elements):
                    continue
                size = 0
                if element.tag == "tu":
                    variants = element.iter("tuv")
                    yield [_variant(v, s) for v in variants for s in v.iter("seg")]
                if open_elements:
                    open_elements[-1].clear()
            UNIT.check(size, where, REPAIR)
        parser.close()


def _broken(path: Path, error: Any) -> str:
    return (
        f"`{path}`, line {error.position[0]}: the file must be well-formed XML. "
        f"Received: {error}. Export it again."
    )


def _variant(variant: Element, segment: Element) -> tuple[str, str]:
    """Return the language of a variant, in lower case, and its text."""
    names = ("{http://www.w3.org/XML/1998/namespace}lang", "lang")
    code = next(filter(None, map(variant.get, names)), "")
    return code.lower().replace("_", "-"), _text_of(segment)


def _text_of(element: Element) -> str:
    """Return the text of an element without its inline codes.

    A code between two words, which may be a line break, becomes a blank.
    """
    text = element.text or ""
    for child in element:
        tail = child.tail or ""
        if child.tag in CODES:
            apart = text[-1:].isalnum() and tail[:1].isalnum()
            text += " " * apart + tail
        else:
            text += _text_of(child) + tail
    return text


def _is_language(code: str, language: str) -> bool:
    """Tell whether a code in a file, in lower case, is of a requested language."""
    if language == ENGLISH:
        return is_english(code)
    return language.lower().replace("_", "-") in (code, code.split("-")[0])


def _allowed(path: Path, handle: BinaryIO) -> Iterator[str]:
    """Yield the text of a file with blanks instead of forbidden characters."""

    def unreadable(error: Exception) -> str:
        return (
            f"`{path}`, line 1: the encoding must be the one that the first line "
            f"names, or UTF-8. Received: another ({error}). Write the file in UTF-8, "
            "also in its first line."
        )

    start, rest = handle.read(BLOCK), ""
    named = ENCODING.search(start)
    encoding = named[1].decode() if named else "utf-8-sig"
    encoding = WIDE.get(start[:2], encoding)
    with explained(unreadable, LookupError, ValueError):
        "".encode(encoding)  # other codecs, such as `zip`, raise LookupError
        decoder = codecs.getincrementaldecoder(encoding)()
        for block in chain([start], iter(partial(handle.read, BLOCK), b""), [b""]):
            text = rest + decoder.decode(block, final=not block)
            # Keep the start of a reference that may continue in the next block.
            cut = text.rfind("&", -LONGEST) if block else -1
            text, rest = (text, "") if cut < 0 else (text[:cut], text[cut:])
            yield REFERENCE.sub(_reference, CONTROL.sub(" ", text))


def _reference(match: re.Match[str]) -> str:
    code = int(match[1], 16) if match[1] else int(match[2])
    allowed = code <= 0x10FFFF and not CONTROL.match(chr(code))
    return match[0] if allowed else " "
