"""One entry of a gettext catalogue."""

import codecs
from pathlib import Path
from typing import NamedTuple

from keras_msd.checks import InputError


class Entry(NamedTuple):
    """What `.po` and `.mo` hold alike.

    Attributes:
        ids: The English text; with a plural, (singular, plural).
        strings: Its translation; with a plural, one for each form.
        context: `msgctxt`, None if there is none.
    """

    ids: tuple[str, ...]
    strings: tuple[str, ...]
    context: str | None = None

    @property
    def is_header(self) -> bool:
        """Whether the translation is the catalogue's header."""
        return self.ids[0] == "" and self.context is None


def charset_of(header: str, path: Path) -> str:
    """Return the codec that a header names, UTF-8 if it names none.

    Raises:
        InputError: Python has no such codec, or it is none of text in bytes.
    """
    _, found, rest = header.partition("charset=")
    name = rest.split()[0].strip('";\\') if found and rest.strip() else ""
    if name in ("", "CHARSET", "CHARSET\\n"):  # the second stands in new templates
        return "utf-8"
    name = name.removesuffix("\\n")
    try:
        codec = codecs.lookup(name)
        # Byte codecs such as `zip` or `hex`, and UTF-16, cannot hold a catalogue.
        usable = "a".encode(codec.name) == b"a"
    except (LookupError, UnicodeError) as error:
        raise InputError(_unusable(path, name)) from error
    if not usable:
        raise InputError(_unusable(path, name))
    return codec.name


def decode(data: bytes, charset: str, where: str) -> str:
    """Return text; raise `InputError`, naming the place, if it is not in `charset`."""
    try:
        return data.decode(charset)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: text must be {charset}, as the header says (without a word "
            f"there, utf-8). Received: byte 0x{data[error.start]:02x} at position "
            f"{error.start + 1}. Repair the header's charset, or convert the file."
        ) from error


def _unusable(path: Path, name: str) -> str:
    return (
        f"`{path}`: the header's charset must be one that Python reads and that holds "
        f"ASCII. Received: {name!r:.40}. Convert the file: msgconv -t UTF-8"
    )
