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

BLOCK = 1 << 16  # bytes given to the parser at a time
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
        InputError: The file is no well-formed XML, declares entities (a few lines of
            which can expand to gigabytes), or has no unit in both languages.
    """
    seen: set[str] = set()
    empty = True
    for unit in read_units(path):
        seen.update(code for code, _ in unit)
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
    block, broken = b"<", partial(_broken, path)
    with open_bytes(path) as handle, explained(broken, expat.ExpatError):
        while block:
            block = handle.read(BLOCK)
            parser.Parse(block, not block)
            yield from units
            units.clear()


def _broken(path: Path, error: Any) -> str:
    return (
        f"`{path}`, line {error.lineno}: the file must be well-formed XML. Received: "
        f"{expat.ErrorString(error.code)}. Export it again."
    )


def _parser(path: Path, units: list[Unit]) -> expat.XMLParserType:
    """Return a parser that appends to `units`; a tree holds one unit at a time."""
    parser = expat.ParserCreate()
    tree: TreeBuilder | None = None

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal tree
        if name == "tu":
            tree = TreeBuilder()
        if tree is not None:
            tree.start(name, attributes)

    def data(text: str) -> None:
        if tree is not None:
            tree.data(text)

    def end(name: str) -> None:
        nonlocal tree
        element = tree.end(name) if tree is not None else None
        if name == "tu" and element is not None:
            variants = [(v, s) for v in element.iter("tuv") for s in v.iter("seg")]
            units.append([(_code(v), _text(s)) for v, s in variants])
            tree = None

    def refuse(name: str, *declaration: object) -> None:
        raise InputError(
            f"`{path}`, line {parser.CurrentLineNumber}: a TMX file may not declare "
            f"entities. Received: <!ENTITY {name} ...>. Remove the declaration and "
            "write the characters themselves."
        )

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = data, refuse
    return parser


def _code(variant: Element) -> str:
    code = variant.get("xml:lang") or variant.get("lang") or ""
    return code.lower().replace("_", "-")


def _text(element: Element) -> str:
    parts = [element.text or ""]
    for child in element:
        parts += ["" if child.tag in CODES else _text(child), child.tail or ""]
    return "".join(parts)
