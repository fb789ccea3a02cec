"""Units of an XML file, such as those of TMX and XLIFF, read as a stream."""

import codecs
import re
from collections.abc import Collection, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from keras_msd.checks import InputError, explained
from keras_msd.data.readers.lines import open_bytes
from keras_msd.limits import ELEMENTS_DEEP, UNIT

BLOCK = 1 << 16  # bytes that are read at a time
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
REFERENCE = re.compile(r"&#(?:x([0-9A-Fa-f]{1,8})|([0-9]{1,9}));")
LONGEST = 16  # characters of a reference
ENCODING = re.compile(rb"<\?xml[^>]*encoding=[\"']([A-Za-z0-9._-]+)")
WIDE = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le"}


def units(
    path: Path, names: Collection[str], repair: str, heads: Collection[str] = ()
) -> Iterator[Element]:
    """Yield some elements of a file as they end; memory holds one block of them.

    A blank stands for each character that XML forbids, as it is or as a reference
    such as `&#x2;`.

    Args:
        path: The file.
        names: What the elements are called; one inside another is part of it.
        repair: What to do with a file over a limit.
        heads: Elements that are yielded where they begin, with their attributes alone.

    Raises:
        InputError: The file is no well-formed XML, is not in the encoding that it
            names, declares entities (a few lines of which can expand to gigabytes) or
            uses undeclared ones, or is over a limit of `keras_msd.limits`.
    """
    parser = _Parser(path, names, heads, repair)
    with (
        open_bytes(path) as handle,
        explained(partial(_broken, path), expat.ExpatError),
    ):
        for text in _allowed(path, handle):
            yield from parser.parse(text)
        yield from parser.parse("", last=True)


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
    return text


def _allowed(path: Path, handle: BinaryIO) -> Iterator[str]:
    """Yield the text of a file with blanks for forbidden characters."""
    start, rest = handle.read(BLOCK), ""
    named = ENCODING.search(start)
    encoding = named[1].decode() if named else "utf-8-sig"
    encoding = WIDE.get(start[:2], encoding)
    with explained(partial(_unreadable, path), LookupError, ValueError):
        "".encode(encoding)  # other codecs, such as `zip`, raise LookupError
        decoder = codecs.getincrementaldecoder(encoding)()
        for block in chain([start], iter(partial(handle.read, BLOCK), b""), [b""]):
            text = rest + decoder.decode(block, final=not block)
            # A reference that goes on in the next block waits for it.
            cut = text.rfind("&", -LONGEST) if block else -1
            text, rest = (text, "") if cut < 0 else (text[:cut], text[cut:])
            yield REFERENCE.sub(_reference, CONTROL.sub(" ", text))


def _reference(match: re.Match[str]) -> str:
    code = int(match[1], 16) if match[1] else int(match[2])
    allowed = code <= 0x10FFFF and not CONTROL.match(chr(code))
    return match[0] if allowed else " "


def _broken(path: Path, error: Any) -> str:
    return (
        f"`{path}`, line {error.lineno}: the file must be well-formed XML. Received: "
        f"{expat.ErrorString(error.code)}. Export it again."
    )


def _unreadable(path: Path, error: Exception) -> str:
    return (
        f"`{path}`, line 1: the encoding must be the one that the first line names, or "
        f"UTF-8. Received: another ({error}). Write the file in UTF-8, also in its "
        "first line."
    )


class _Parser:
    """Expat with a tree of one unit at a time."""

    def __init__(
        self, path: Path, names: Collection[str], heads: Collection[str], repair: str
    ) -> None:
        self.path, self.names, self.heads, self.repair = path, names, heads, repair
        self.found: list[Element] = []
        self.tree: TreeBuilder | None = None
        self.depth = self.unit = 0  # `unit`: the depth of the one in the tree
        self.size = 0  # characters since the begin of the unit or tag
        self.expat = expat.ParserCreate()
        self.expat.buffer_text = True
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.data
        self.expat.EntityDeclHandler = self.expat.SkippedEntityHandler = self.entity

    def parse(self, text: str, last: bool = False) -> list[Element]:
        """Return the units that end in a text."""
        self.found = []
        self.size += len(text)
        self.expat.Parse(text, last)
        UNIT.check(self.size, self.where(), self.repair)
        return self.found

    def where(self) -> str:
        return f"`{self.path}`, line {self.expat.CurrentLineNumber}"

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        ELEMENTS_DEEP.check(self.depth, self.where(), self.repair)
        if self.tree is None:
            self.size = 0
            if name in self.heads:
                self.found.append(Element(name, attributes))
            if name in self.names:
                self.tree, self.unit = TreeBuilder(), self.depth
        if self.tree is not None:
            self.tree.start(name, attributes)

    def data(self, text: str) -> None:
        if self.tree is not None:
            self.tree.data(text)

    def end(self, name: str) -> None:
        if self.tree is not None:
            element = self.tree.end(name)
            if self.depth == self.unit:
                self.found.append(element)
                self.tree = None
        if self.tree is None:
            self.size = 0
        self.depth -= 1

    def entity(self, name: str, *_: object) -> None:
        raise InputError(
            f"{self.where()}: entities must be those of XML, such as &amp;, and none "
            f"may be declared. Received: &{name};. Write the character itself."
        )
