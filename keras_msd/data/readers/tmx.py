"""TMX, the exchange format of translation memories, read as a stream."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from keras_msd.checks import InputError, explained
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import is_english, open_bytes
from keras_msd.limits import ELEMENTS_DEEP, TAG, UNIT_ELEMENTS, UNIT_TEXT

BLOCK = 1 << 16  # bytes given to the parser at a time
NAMED = 100  # languages that a message names
REPAIR = "It is no translation memory as tools write it: export it again."
CODES = {"bpt", "ept", "it", "ph", "ut"}  # elements that hold markup, not text

Unit = list[tuple[str, str]]  # (language code, text) of each variant


def read(path: Path, language: str, source: str = ENGLISH) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every unit that has both languages.

    English of any country counts (`en-US`); so does any country's variant of another
    language, unless its code itself names a country. A unit with several translations
    gives as many pairs.

    Args:
        path: A `.tmx` or `.tmx.gz` file.
        language: Code of the translations' language.
        source: Code of the other language.

    Raises:
        InputError: The file is no well-formed XML, is in an encoding that expat does
            not read, declares entities (a few lines of which can expand to gigabytes)
            or uses undeclared ones, is over a limit of `keras_msd.limits`, or has no
            unit in both languages.
    """
    seen: set[str] = set()
    empty = True
    for unit in read_units(path):
        if len(seen) < NAMED:
            seen.update(code[:20] for code, _ in unit[:NAMED])
        firsts = [text for code, text in unit if _matches(code, source)]
        others = [text for code, text in unit if _matches(code, language)]
        for other in others if firsts else ():
            empty = False
            yield firsts[0], other
    if empty:
        raise InputError(
            f"`{path}` has no unit in `{source}` and `{language}`. Languages in it: "
            f"{', '.join(sorted(seen)) or 'none'}. Give one of them as `language`."
        )


def first_language(path: Path) -> str | None:
    """Return the language beside English of the first unit, None if not just one."""
    for unit in read_units(path):
        others = {code.split("-")[0] for code, _ in unit if not is_english(code)}
        return others.pop() if len(others) == 1 else None
    return None


def _matches(code: str, language: str) -> bool:
    if language == ENGLISH:
        return is_english(code)
    return language.lower().replace("_", "-") in (code, code.split("-")[0])


def read_units(path: Path) -> Iterator[Unit]:
    """Yield the variants of each translation unit; memory holds one block of units."""
    units: list[Unit] = []
    parser = _parser(path, units)
    block, given = b"<", 0
    with open_bytes(path) as handle:
        while block:
            block = handle.read(BLOCK)
            given += len(block)
            with explained(partial(_broken, path), expat.ExpatError):
                # Expat raises the others for character sets that it does not know.
                with explained(partial(_unreadable, path), LookupError, ValueError):
                    parser.Parse(block, not block)
            # It keeps what it has not understood, and reads that again at each block.
            unread = given - max(parser.CurrentByteIndex, 0)
            TAG.check(unread, _line(path, parser.CurrentLineNumber), REPAIR)
            yield from units
            units.clear()


def _line(path: Path, number: int) -> str:
    return f"`{path}`, line {number}"


def _broken(path: Path, error: Any) -> str:
    return (
        f"{_line(path, error.lineno)}: the file must be well-formed XML. Received: "
        f"{expat.ErrorString(error.code)}. Export it again."
    )


def _unreadable(path: Path, error: Exception) -> str:
    return (
        f"{_line(path, 1)}: the encoding must be UTF-8, UTF-16 or one byte a "
        f"character. Received: another ({error}). Write the file in UTF-8, also in its "
        "first line."
    )


def _parser(path: Path, units: list[Unit]) -> expat.XMLParserType:
    """Return a parser that appends to `units`; a tree holds one unit at a time."""
    parser = expat.ParserCreate()
    tree: TreeBuilder | None = None
    depth = elements = size = 0

    def where() -> str:
        return _line(path, parser.CurrentLineNumber)

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal tree, depth, elements, size
        depth += 1
        ELEMENTS_DEEP.check(depth, where(), REPAIR)
        if name == "tu":
            tree, elements, size = TreeBuilder(), 0, 0
        if tree is not None:
            elements += 1
            UNIT_ELEMENTS.check(elements, where(), REPAIR)
            grow(sum(map(len, attributes.values())))
            tree.start(name, attributes)

    def grow(number: int) -> None:
        nonlocal size
        size += number
        UNIT_TEXT.check(size, where(), REPAIR)

    def data(text: str) -> None:
        if tree is not None:
            grow(len(text))
            tree.data(text)

    def end(name: str) -> None:
        nonlocal tree, depth
        depth -= 1
        element = tree.end(name) if tree is not None else None
        if name == "tu" and element is not None:
            variants = [(v, s) for v in element.iter("tuv") for s in v.iter("seg")]
            units.append([(_code(v), _text(s)) for v, s in variants])
            tree = None

    def refuse(name: str, *declaration: object) -> None:
        raise InputError(
            f"{where()}: a TMX file may not declare entities. Received: <!ENTITY {name}"
            " ...>. Remove the declaration and write the characters themselves."
        )

    def skipped(name: str, *_: object) -> None:
        raise InputError(
            f"{where()}: entities must be those of XML, such as &amp;. Received: "
            f"&{name};, which is not declared in the file. Write the character itself."
        )

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = data, refuse
    parser.SkippedEntityHandler = skipped
    return parser


def _code(variant: Element) -> str:
    code = variant.get("xml:lang") or variant.get("lang") or ""
    return code.lower().replace("_", "-")


def _text(element: Element) -> str:
    parts = [element.text or ""]
    for child in element:
        parts += ["" if child.tag in CODES else _text(child), child.tail or ""]
    return "".join(parts)
