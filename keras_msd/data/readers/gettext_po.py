"""The text form of gettext catalogues, `.po`, one entry at a time.

Source: GNU gettext manual, "The Format of PO Files".
"""

import re
from collections.abc import Iterator
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.readers.gettext_entry import Entry, charset_of, decode
from keras_msd.data.readers.lines import LONGEST, open_bytes

HEAD = 1 << 16  # bytes in which the header must stand; licences come before it
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
LINE = re.compile(
    r"(?:(msgctxt|msgid_plural|msgid|msgstr|domain)\s*(?:\[(\d{1,2})\])?\s*)?"
    rf"((?:{LITERAL.pattern}\s*)+)"
)
HEADER = re.compile(r'\s*msgid\s+""\s*\n\s*msgstr\s*(?:"(?:[^"\\]|\\.)*"\s*)+')
ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))")
CONTROL = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
CONTROL |= {sign: ord(sign) for sign in "\\\"'?"}


def entries(path: Path) -> Iterator[Entry]:
    """Yield the entries that are neither fuzzy nor obsolete; the header always.

    Raises:
        InputError: A line is no part of a catalogue, an entry is not whole, or text is
            not in the header's character set.
    """
    charset = _charset(path)
    fields: dict[str, str] = {}
    key, fuzzy, size, began = "", False, 0, 0
    for number, line in _lines(path, charset):
        where = f"`{path}`, line {number}"
        if line.startswith("#") or not line:
            if "msgstr" in _kinds(fields):
                yield from _whole(fields, fuzzy)
                fields, fuzzy = {}, False
            if line.startswith("#~"):
                fuzzy = False  # the flag was of an obsolete entry
            if line.startswith("#,"):
                fuzzy |= "fuzzy" in {flag.strip() for flag in line[2:].split(",")}
            continue
        match = LINE.fullmatch(line)
        if match is None:
            raise InputError(
                f"{where}: a line must be a comment, a text in quotes, or one after "
                f"msgctxt, msgid, msgid_plural or msgstr. Received: {line!r:.80}."
            )
        keyword, form, literals = match[1], match[2], match[3]
        if keyword == "domain":
            continue
        if keyword:
            if keyword in ("msgctxt", "msgid") and "msgstr" in _kinds(fields):
                yield from _whole(fields, fuzzy)
                fields, fuzzy = {}, False
            key = f"{keyword} {int(form or 0)}" if keyword == "msgstr" else keyword
            _check_order(where, key, fields, bool(form), line)
            began, size = (began if fields else number), 0
            fields[key] = ""
        elif not fields:
            raise InputError(
                f"{where}: a text must follow msgid or msgstr. Received: {line!r:.80}."
            )
        text = "".join(LITERAL.findall(literals))
        fields[key] += _unescape(text, charset, where) if "\\" in text else text
        size += len(text)
        if size > LONGEST:
            raise InputError(
                f"{where}: a text may have {LONGEST} characters. Received: more. "
                "Take the entry out."
            )
    if fields and "msgstr" not in _kinds(fields):
        raise InputError(
            f"`{path}`, line {began}: an entry must end with msgstr. Received: the end "
            "of the file. Get the whole catalogue."
        )
    yield from _whole(fields, fuzzy)


def _kinds(fields: dict[str, str]) -> set[str]:
    return {key.split()[0] for key in fields}


def _check_order(
    where: str, key: str, fields: dict[str, str], numbered: bool, line: str
) -> None:
    kind = key.split()[0]
    before = _kinds(fields)
    allowed = {
        "msgctxt": not fields,
        "msgid": before <= {"msgctxt"},
        "msgid_plural": "msgid" in before and "msgstr" not in before,
        "msgstr": "msgid" in before and numbered == ("msgid_plural" in before),
    }
    if key in fields or not allowed[kind]:
        raise InputError(
            f"{where}: an entry is msgctxt, msgid, msgid_plural (both if any), then "
            "msgstr once, or msgstr[0], msgstr[1], ... after a plural. Received: "
            f"{line!r:.80}."
        )


def _whole(fields: dict[str, str], fuzzy: bool) -> Iterator[Entry]:
    if not fields:
        return
    ids = tuple(fields[key] for key in ("msgid", "msgid_plural") if key in fields)
    forms = sorted(int(key.split()[1]) for key in fields if key.startswith("msgstr"))
    strings = tuple(fields.get(f"msgstr {n}", "") for n in range(forms[-1] + 1))
    entry = Entry(ids, strings, fields.get("msgctxt"))
    if entry.is_header or not fuzzy:
        yield entry


def _charset(path: Path) -> str:
    """Return the codec that the first entry names if it is the header."""
    with open_bytes(path) as handle:
        head = handle.read(HEAD).removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    lines = [line for line in head.split("\n") if not line.lstrip().startswith("#")]
    first = HEADER.match("\n".join(lines))
    return charset_of(first[0] if first else "", path)


def _lines(path: Path, charset: str) -> Iterator[tuple[int, str]]:
    with open_bytes(path) as handle:
        number = 0
        while data := handle.readline(LONGEST):
            number += 1
            where = f"`{path}`, line {number}"
            if len(data) == LONGEST and not data.endswith(b"\n"):
                raise InputError(f"{where}: a line may have {LONGEST} bytes.")
            if number == 1:
                data = data.removeprefix(b"\xef\xbb\xbf")
            # Comments may keep names in another character set.
            if data.lstrip().startswith(b"#"):
                yield number, data.decode("latin-1").strip()
            else:
                # Only these end or indent a line; strip() takes U+00A0 too.
                yield number, decode(data, charset, where).strip(" \t\r\n\f\v")


def _unescape(text: str, charset: str, where: str) -> str:
    """Return the text that C would read; numbers in escapes are bytes of `charset`."""
    data, end = bytearray(), 0
    for match in ESCAPE.finditer(text):
        data += text[end : match.start()].encode(charset)
        octal, hexadecimal, sign = match.groups()
        if sign is not None and sign not in CONTROL:
            raise InputError(
                f"{where}: `\\{sign}` is no escape. Received: {text!r:.80}. Write "
                "`\\\\` for a backslash."
            )
        number = int(octal, 8) if octal else int(hexadecimal or "0", 16)
        data.append((CONTROL[sign] if sign else number) & 0xFF)
        end = match.end()
    data += text[end:].encode(charset)
    return decode(bytes(data), charset, where)
