"""Units of an XML file, such as those of TMX and XLIFF, read as a stream."""

import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from keras_msd.checks import InputError, explained
from keras_msd.data.readers.lines import open_bytes
from keras_msd.limits import ELEMENTS_DEEP, TAG, UNIT_ELEMENTS, UNIT_TEXT

BLOCK = 1 << 16  # bytes given to the parser at a time
# Stands for a character that XML forbids: it is allowed there, and no text has it.
FORBIDDEN = "\ufdd0"
MARK = b"&#xFDD0;"  # the same in every encoding, but literally so in CDATA
REFERENCE = re.compile(rb"&#(x[0-9A-Fa-f]{1,8}|[0-9]{1,9});")
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
NONCHARACTER = re.compile(b"\xef\xbf[\xbe\xbf]")  # U+FFFE and U+FFFF in UTF-8
ENCODING = re.compile(rb"<\?xml[^>]*encoding=[\"']([A-Za-z0-9._-]+)")
LONGEST = 16  # bytes of a reference


def units(
    path: Path, names: Collection[str], repair: str, heads: Collection[str] = ()
) -> Iterator[Element]:
    """Yield some elements of a file as they end; memory holds one block of them.

    Characters that XML forbids, as they are or as references such as `&#x2;`, are
    `FORBIDDEN` in their texts.

    Args:
        path: The file.
        names: What the elements are called; one inside another is part of it.
        repair: What to do with a file over a limit.
        heads: Elements that are yielded where they begin, with their attributes alone.

    Raises:
        InputError: The file is no well-formed XML, is in an encoding that expat does
            not read, declares entities (a few lines of which can expand to gigabytes)
            or uses undeclared ones, or is over a limit of `keras_msd.limits`.
    """
    found: list[Element] = []
    parser = _parser(path, names, heads, repair, found.append)
    given = 0
    with open_bytes(path) as handle:
        for block in _allowed(handle):
            given += len(block)
            with explained(partial(_broken, path), expat.ExpatError):
                # Expat raises the others for character sets that it does not know.
                with explained(partial(_unreadable, path), LookupError, ValueError):
                    parser.Parse(block, not block)
            # It keeps what it has not understood, and reads that again at each block.
            unread = given - max(parser.CurrentByteIndex, 0)
            TAG.check(unread, _line(path, parser.CurrentLineNumber), repair)
            yield from found
            found.clear()


def text_of(element: Element, codes: Collection[str]) -> str:
    """Return the text of an element without the inline codes in it.

    A code between two words keeps them apart: it may be a line break.

    Args:
        element: Such as `<seg>`.
        codes: Elements that hold markup, not text.
    """
    text = element.text or ""
    for child in element:
        tail = child.tail or ""
        if child.tag in codes:
            apart = text[-1:].isalnum() and tail[:1].isalnum()
            text += " " * apart + tail
        else:
            text += text_of(child, codes) + tail
    return text.replace(MARK.decode(), FORBIDDEN)


def _allowed(handle: BinaryIO) -> Iterator[bytes]:
    """Yield blocks, and an empty one last, with `MARK` for forbidden characters."""
    rest, block = b"", handle.read(BLOCK)
    named = ENCODING.match(block)
    utf8 = named is None or named[1].lower() in (b"utf-8", b"utf8")
    wide = block.startswith((b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<"))
    while block:
        block, rest = rest + block, b""
        following = handle.read(BLOCK)
        if not wide:
            # What may go on in the next block waits for it.
            cut = max(block.rfind(b"&"), block.rfind(b"\xef"))
            if following and cut >= len(block) - LONGEST:
                block, rest = block[:cut], block[cut:]
            block = REFERENCE.sub(_reference, CONTROL.sub(MARK, block))
            block = NONCHARACTER.sub(MARK, block) if utf8 else block
        if block:
            yield block
        block = following
    yield b""


def _reference(match: re.Match[bytes]) -> bytes:
    digits = match[1]
    code = int(digits[1:], 16) if digits.startswith(b"x") else int(digits)
    allowed = code in (0x9, 0xA, 0xD) or 0x20 <= code < 0xD800
    allowed = allowed or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
    return match[0] if allowed else MARK


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


def _parser(
    path: Path,
    names: Collection[str],
    heads: Collection[str],
    repair: str,
    found: Callable[[Element], None],
) -> expat.XMLParserType:
    """Return a parser that calls `found`; a tree holds one unit at a time."""
    parser = expat.ParserCreate()
    tree: TreeBuilder | None = None
    depth = unit = elements = size = 0  # `unit`: the depth of the one in the tree

    def where() -> str:
        return _line(path, parser.CurrentLineNumber)

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal tree, depth, unit, elements, size
        depth += 1
        ELEMENTS_DEEP.check(depth, where(), repair)
        if name in heads and tree is None:
            found(Element(name, attributes))
        if name in names and tree is None:
            tree, unit, elements, size = TreeBuilder(), depth, 0, 0
        if tree is not None:
            elements += 1
            UNIT_ELEMENTS.check(elements, where(), repair)
            grow(sum(map(len, attributes.values())))
            if elements == 1:  # messages name the line where a unit begins
                attributes = attributes | {"line": str(parser.CurrentLineNumber)}
            tree.start(name, attributes)

    def grow(number: int) -> None:
        nonlocal size
        size += number
        UNIT_TEXT.check(size, where(), repair)

    def data(text: str) -> None:
        if tree is not None:
            grow(len(text))
            tree.data(text)

    def end(name: str) -> None:
        nonlocal tree, depth
        if tree is not None:
            element = tree.end(name)
            if depth == unit:
                found(element)
                tree = None
        depth -= 1

    def refuse(name: str, *declaration: object) -> None:
        raise InputError(
            f"{where()}: an XML file may not declare entities. Received: <!ENTITY "
            f"{name} ...>. Remove the declaration and write the characters themselves."
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
