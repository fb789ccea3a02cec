"""The compiled form of gettext catalogues, `.mo`.

Source: GNU gettext manual, "The Format of GNU MO Files".
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.readers.gettext_entry import Entry, charset_of, decode
from keras_msd.data.readers.lines import open_bytes

MAGIC = 0x950412DE
LARGEST = 1 << 28  # bytes; the largest catalogues have some millions


def entries(path: Path) -> Iterator[Entry]:
    """Yield the entries; the file, of either byte order, is held in memory.

    Raises:
        InputError: The file is over 256 MiB, no catalogue, or not whole.
    """
    with open_bytes(path) as handle:
        data = handle.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise InputError(f"`{path}`: a catalogue may have {LARGEST} bytes.")
    magic = int.from_bytes(data[:4], "little")
    swapped = int.from_bytes(data[:4], "big")
    if MAGIC not in (magic, swapped):
        raise InputError(
            f"`{path}` must begin with the number of a compiled catalogue, "
            f"0x{MAGIC:x}. Received: 0x{swapped:08x}. Give a .mo file, or its .po."
        )
    order = "<" if magic == MAGIC else ">"
    revision, count, ids, strings = _numbers(data, f"{order}4I", 4, path)
    if revision >> 16 > 1:
        raise InputError(
            f"`{path}`: the format's version must be 0 or 1. Received: "
            f"{revision >> 16}. Give the .po file."
        )
    charset = "utf-8"
    for index in range(count):
        raw = _string(data, order, ids + 8 * index, path)
        translated = _string(data, order, strings + 8 * index, path)
        if not raw:  # the header: it sorts first
            charset = charset_of(translated.decode("latin-1"), path)
        where = f"`{path}`, entry {index + 1}"
        yield _entry(decode(raw, charset, where), decode(translated, charset, where))


def _entry(identity: str, translated: str) -> Entry:
    context, divider, text = identity.partition("\x04")
    if not divider:
        text = identity
    ids = tuple(text.split("\0"))
    strings = tuple(translated.split("\0")) if len(ids) > 1 else (translated,)
    return Entry(ids, strings, context if divider else None)


def _string(data: bytes, order: str, place: int, path: Path) -> bytes:
    length, offset = _numbers(data, f"{order}2I", place, path)
    if offset + length > len(data):
        raise InputError(_cut(path, offset + length, len(data)))
    return data[offset : offset + length]


def _numbers(data: bytes, layout: str, place: int, path: Path) -> tuple[int, ...]:
    end = place + struct.calcsize(layout)
    if end > len(data):
        raise InputError(_cut(path, end, len(data)))
    return struct.unpack_from(layout, data, place)


def _cut(path: Path, needed: int, found: int) -> str:
    return (
        f"`{path}` is damaged or truncated: it points to byte {needed}. Received: "
        f"{found} bytes. Compile it again: msgfmt"
    )
