"""Gettext catalogues: texts, as a rule English, in `msgid`, translations in `msgstr`.

Source: GNU gettext manual, "The Format of PO Files", "The Format of GNU MO Files".
"""

import codecs
import gettext
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_msd.checks import InputError
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import LONGEST, decoded, open_bytes, unpacked
from keras_msd.data.readers.records import check_keys
from keras_msd.limits import CATALOGUE, ENTRIES

CODE = r"[a-z]{2,3}(?:[_@-][A-Za-z]+)*"
UNSET = "nplurals=INTEGER;plural=EXPRESSION;"  # what a new template holds
ONE, MANY = 1, 5  # 5 takes the form of unnamed numbers: 2 is a dual in Arabic
HEAD = 1 << 16  # bytes in which the header must stand; licences come before it
# What is matched is never given back (`*+`), else a long line takes n^2 steps.
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*+)"')
LINE = re.compile(
    r"(?:(msgctxt|msgid_plural|msgid|msgstr)\s*+(\[\d\])?+\s*+)?+"
    rf"((?:{LITERAL.pattern}\s*+)++)"
)
HEADER = re.compile(
    r'\s*+msgid\s++""[^\S\n]*+\n\s*+msgstr\s*+(?:"(?:[^"\\]|\\.)*+"\s*+)++'
)
# Codecs of text that are not character sets of files: of domain names, of programs.
NO_CHARSETS = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined")
WRONG_RULE = (ArithmeticError, MemoryError, RecursionError, SyntaxError, ValueError)
REPAIR = "Split the catalogue, or give the pairs as TSV."
NUMBER = r"\\(?:[0-7]{1,3}|x[0-9A-Fa-f]{1,2})"
ESCAPE = re.compile(rf"((?:{NUMBER})+)|\\(.)")
ESCAPES = dict(zip("abfnrtv\\\"'?", "\a\b\f\n\r\t\v\\\"'?", strict=True))
ORDER = (
    "an entry must be msgctxt, msgid, msgid_plural (both if any), then msgstr once, or "
    "msgstr[0], msgstr[1], ... after a plural, with flags before all of it"
)
MAGIC = 0x950412DE
Texts = tuple[Sequence[str], Sequence[str]]


class Catalogue(NamedTuple):
    """What `.po` and `.mo` hold alike.

    Attributes:
        header: Its fields, names in small letters.
        entries: The English text, or (singular, plural); and its translation, with a
            plural one for each form.
    """

    header: dict[str, str]
    entries: list[Texts]


def read(path: Path, language: str, source: str = ENGLISH) -> Iterator[tuple[str, str]]:
    """Yield text and translation of every entry that is translated.

    Fuzzy and obsolete entries, the header and empty translations are passed over; a
    context is no part of the text. An entry with plurals gives two pairs: the singular
    with the form for 1, the plural with the form for 5; where the language has one
    form for both, only the second. Texts are as written: accelerators, placeholders
    and line ends are the cleaning's affair.

    Args:
        path: A `.po` or `.mo` file, each also `.gz`; memory holds it whole.
        language: Code of the translations' language.
        source: Code of the texts' language.

    Raises:
        InputError: The file breaks the format, names a character set that it is not
            in, has a plural rule that is no expression, or has no translation; or half
            of its texts are keys, such as `button.ok.label`.
    """
    header, entries = _catalogue(path)
    check_keys(((i[0], t[0]) for i, t in entries if t and t[0]), source, path, "msgid")
    rule, empty = header.get("plural-forms", ""), True
    both: list[int] = []
    for english, texts in entries:
        both = both or (_forms(rule, path) if len(english) > 1 else [])
        forms = both if len(english) > 1 else [0]
        for index in dict.fromkeys(forms):
            # The last of two equal indices: one form for both is the plural's.
            text = english[-1] if index == forms[-1] else english[0]
            if index < len(texts) and text and texts[index]:
                empty = False
                yield text, texts[index]
    if empty:
        raise InputError(
            f"`{path}` has no translated entry: all are empty, fuzzy or obsolete. Take "
            "a translated catalogue; a template (`.pot`) has none."
        )


def languages(path: Path) -> tuple[str | None, str | None]:
    """Return the languages of texts and translations that the file itself names.

    That of the texts is `X-Source-Language` in the header; that of the translations
    `Language`, else in the name, as `xx.po` or `xx/LC_MESSAGES/*.mo`.
    """
    header = _catalogue(path, header_only=True).header
    source = header.get("x-source-language", "").partition(".")[0]
    named = header.get("language", "")
    return source if re.fullmatch(CODE, source) else None, _target(named, path)


def _target(named: str, path: Path) -> str | None:
    folder = path.parent.parent.name if path.parent.name == "LC_MESSAGES" else ""
    # Three letters alone can be any word: `app.po`, `gui.po`.
    stem = unpacked(path).stem.rpartition(".")[2]
    if re.fullmatch("[a-z]{3}", stem):
        stem = ""
    for code in (named.partition(".")[0], folder, stem):
        if re.fullmatch(CODE, code):
            return code
    return None


def _forms(rule: str, path: Path) -> list[int]:
    """Return which `msgstr[n]` stand for one and for many."""
    if "".join(rule.split()) in ("", UNSET):
        return [0, 1]
    match = re.search(r"plural\s*=([^;]*)", rule)
    try:
        if match is None:
            raise ValueError("no `plural=`")
        form = gettext.c2py(match[1])
        forms = [form(ONE), form(MANY)]
        if min(forms) < 0:
            raise ValueError(f"it gives {min(forms)}")
        return forms
    except WRONG_RULE as error:
        raise InputError(
            f"`{path}`: `Plural-Forms` in the header must be a rule such as "
            f"`nplurals=2; plural=(n != 1);`. Received: {rule!r:.80} ({error})."
        ) from error


def _catalogue(path: Path, header_only: bool = False) -> Catalogue:
    with open_bytes(path) as handle:
        data = handle.read(CATALOGUE.most + 1)
    CATALOGUE.check(len(data), f"`{path}`", REPAIR)
    if unpacked(path).suffix == ".mo":
        return _compiled(path, data)
    return _written(path, data.removeprefix(codecs.BOM_UTF8), header_only)


class _Entry:
    """An entry of a `.po` while it is read: its texts by `msgid`, `msgstr[0]` etc."""

    def __init__(self, line: int, fuzzy: bool) -> None:
        self.line, self.fuzzy = line, fuzzy
        self.texts: dict[str, list[str]] = {}
        self.size = 0  # characters of the last text

    def follows(self, name: str) -> bool:
        """Return whether a text of that name may come next."""
        last, forms = next(reversed(self.texts), ""), len(self.texts)
        if name == "msgid":
            return last in ("", "msgctxt")
        if name in ("msgid_plural", "msgstr"):
            return last == "msgid"
        forms -= 2 + ("msgctxt" in self.texts)
        return "msgid_plural" in self.texts and name == f"msgstr[{forms}]"

    def whole(self) -> bool:
        return next(reversed(self.texts), "").startswith("msgstr")

    def both(self) -> Texts:
        joined = {name: "".join(parts) for name, parts in self.texts.items()}
        ids = [joined[name] for name in ("msgid", "msgid_plural") if name in joined]
        return ids, [text for name, text in joined.items() if name[:6] == "msgstr"]


def _written(path: Path, data: bytes, header_only: bool) -> Catalogue:
    """Read a `.po`: the entries that are neither fuzzy nor obsolete."""
    head = re.sub(r"(?m)^[ \t]*#.*", "", data[:HEAD].decode("latin-1"))
    match = HEADER.match(head)
    header = match[0] if match else ""
    charset = _charset(header, path)
    if header_only:
        data = header.encode("latin-1")
    entries, fields = _entries(path, data, charset), dict[str, str]()
    for place, entry in enumerate(entries):
        if entry.both()[0] == [""]:  # fuzzy or not, it is the header
            fields = _fields(entries.pop(place).both()[1][0])
            break
    return Catalogue(fields, [entry.both() for entry in entries if not entry.fuzzy])


def _fields(header: str) -> dict[str, str]:
    """Return the fields of a header; a line without a name continues the one before."""
    found, last = dict[str, str](), ""
    for line in header.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            last = name.strip().lower()
            found[last] = value.strip()
        elif last:
            found[last] = f"{found[last]} {line.strip()}".strip()
    return found


def _entries(path: Path, data: bytes, charset: str) -> list[_Entry]:
    """Return the entries that are not obsolete.

    Comments may be in another character set; of them only flags count.
    """
    entries: list[_Entry] = []
    last, fuzzy = _Entry(1, False), False
    for number, raw in enumerate(data.split(b"\n"), 1):
        where = f"`{path}`, line {number}"
        if len(raw) >= LONGEST:
            raise InputError(f"{where}: a line may have {LONGEST} bytes.")
        raw = raw.strip(b" \t\r\f\v")  # only these: the text may end in U+00A0
        between = last.whole() or not entries
        if not raw or raw.startswith((b"#", b"domain")):
            if raw.startswith(b"#,") and not between:
                flags = raw[2:].decode("latin-1")
                raise InputError(f"{where}: {ORDER}. Received: '#,{flags:.80}'.")
            if raw.startswith(b"#,"):
                fuzzy |= b"fuzzy" in re.split(rb"[,\s]+", raw)
            elif raw.startswith(b"#~"):
                fuzzy = False
            continue
        line = _decoded(raw, charset, where)
        match = LINE.fullmatch(line)
        if match is None:
            raise InputError(
                f"{where}: a line must be a comment, a text in quotes, or one after "
                f"msgctxt, msgid, msgid_plural or msgstr. Received: {line!r:.80}."
            )
        name = (match[1] or "") + (match[2] or "")
        if not name and not entries:
            raise InputError(
                f"{where}: a text must follow msgid or msgstr. Received: {line!r:.80}."
            )
        if name in ("msgctxt", "msgid") and between:
            entries.append(last := _Entry(number, fuzzy))
            ENTRIES.check(len(entries), where, REPAIR)
            fuzzy = False
        if name:
            starts = name == "msgctxt" and not last.texts
            if not (entries and (starts or last.follows(name))):
                raise InputError(f"{where}: {ORDER}. Received: {line!r:.80}.")
            last.texts[name], last.size = [], 0
        text = _unescaped("".join(LITERAL.findall(match[3])), charset, where)
        last.size += len(text)
        if last.size > LONGEST:
            raise InputError(
                f"{where}: a text may have {LONGEST} characters. Received: more. Take "
                "the entry out."
            )
        last.texts[next(reversed(last.texts))].append(text)
    if entries and not last.whole():
        raise InputError(
            f"`{path}`, line {last.line}: an entry must end with msgstr. Received: the "
            "end of the file. Get the whole catalogue."
        )
    return entries


def _unescaped(text: str, charset: str, where: str) -> str:
    """Return text without its escapes; numbers in them are bytes of `charset`."""

    def meant(match: re.Match[str]) -> str:
        numbers, sign = match.groups()
        if numbers:
            codes = re.findall(r"\\(x?)(\w+)", numbers)
            data = bytes(int(c, 16 if x else 8) & 0xFF for x, c in codes)
            return _decoded(data, charset, where)
        if sign in ESCAPES:
            return ESCAPES[sign]
        raise InputError(
            f"{where}: `\\{sign}` is no escape. Received: {text!r:.80}. Write "
            "`\\\\` for a backslash."
        )

    return ESCAPE.sub(meant, text)


def _compiled(path: Path, data: bytes) -> Catalogue:
    """Read a `.mo` of either byte order; polib takes a cut text for a whole."""
    order = "<" if data[:4] == struct.pack("<I", MAGIC) else ">"
    if data[:4] != struct.pack(f"{order}I", MAGIC):
        raise InputError(
            f"`{path}` must begin with the number of a compiled catalogue, "
            f"0x{MAGIC:x}. Received: 0x{data[:4].hex()}. Give a .mo file, or its .po."
        )

    def numbers(count: int, place: int) -> tuple[int, ...]:
        return struct.unpack(f"{order}{count}I", part(4 * count, place))

    def part(length: int, place: int) -> bytes:
        if place + length > len(data):
            raise InputError(
                f"`{path}` is damaged or truncated: it points to byte "
                f"{place + length}. Received: {len(data)} bytes. Compile it again: "
                "msgfmt"
            )
        return data[place : place + length]

    version, count, *tables = numbers(4, 4)
    ENTRIES.check(count, f"`{path}`", REPAIR)
    if version >> 16 > 1:
        raise InputError(
            f"`{path}`: the format's version must be 0 or 1. Received: "
            f"{version >> 16}. Give the .po file."
        )
    fields: dict[str, str] = {}
    entries: list[Texts] = []
    charset, size = "utf-8", 0
    for index in range(count):
        english, text = (part(*numbers(2, table + 8 * index)) for table in tables)
        size += len(english) + len(text)  # all entries may point to one text
        CATALOGUE.check(size, f"`{path}`, entry {index + 1}", REPAIR)
        if not english:  # the header: it sorts first
            header = text[:HEAD].decode("latin-1")
            charset = _charset(header, path)
            fields = _fields(_decoded(text[:HEAD], charset, str(path)))
            continue
        where = f"`{path}`, entry {index + 1}"
        ids = _decoded(english, charset, where).rpartition("\x04")[2].split("\0")
        forms = _decoded(text, charset, where)
        entries.append((ids, forms.split("\0") if len(ids) > 1 else [forms]))
    return Catalogue(fields, entries)


def _charset(header: str, path: Path) -> str:
    """Return the codec that a header names, UTF-8 if it names none.

    Raises:
        InputError: Python has no such codec, or it is none of text in bytes.
    """
    match = re.search(r'charset=[";]*([^\s";\\]+)', header)
    name = match[1] if match else "CHARSET"
    if name == "CHARSET":  # so it stands in new templates
        return "utf-8"
    try:
        # Byte codecs such as `zip` or `hex`, and UTF-16, cannot hold a catalogue.
        charset = codecs.lookup(name).name
        if charset not in NO_CHARSETS and "a".encode(charset) == b"a":
            return charset
        cause = None
    except (LookupError, ValueError) as error:
        cause = error
    raise InputError(
        f"`{path}`: the header's charset must be one that Python reads and that holds "
        f"ASCII. Received: {name!r:.40}. Convert the file: msgconv -t UTF-8"
    ) from cause


def _decoded(data: bytes, charset: str, where: str) -> str:
    repair = "So the header says, or says nothing: repair its charset, or convert it."
    return decoded(data, charset, where, lambda: repair)
