"""Gettext catalogues: texts, as a rule English, in `msgid`, translations in `msgstr`.

Source: GNU gettext manual, "The Format of PO Files", "The Format of GNU MO Files".
"""

import codecs
import gettext
import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from keras_msd.checks import InputError, explained
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import decoded, open_bytes, unpacked
from keras_msd.limits import CATALOGUE

CODE = r"[a-z]{2,3}(?:[_@-][A-Za-z]+)*"
UNSET = "nplurals=INTEGER;plural=EXPRESSION;"  # what a new template holds
ONE, MANY = 1, 5  # 5 takes the form of unnamed numbers: 2 is a dual in Arabic
# What is matched is never given back (`*+`), else a long line takes n^2 steps.
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*+)"')
LINE = re.compile(
    r"(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d\])?+)\s*+)?+"
    rf"((?:{LITERAL.pattern}\s*+)++)"
)
CHARSET = re.compile(rb"Content-Type:[^\n\"\\]*charset=([^\s\";\\]+)", re.IGNORECASE)
NO_CHARSETS = ("idna", "punycode")  # codecs of domain names
WRONG_RULE = (ArithmeticError, MemoryError, RecursionError, SyntaxError, ValueError)
REPAIR = "Split the catalogue, or give the pairs as TSV."
ESCAPES = dict(zip("abfnrtv\\\"'?", "\a\b\f\n\r\t\v\\\"'?", strict=True))
MAGIC = (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde")  # of both byte orders
# The source text, or (singular, plural); and its translation, or one for each form.
Texts = tuple[list[str], list[str]]


def read(path: Path, language: str, source: str = ENGLISH) -> Iterator[tuple[str, str]]:
    """Yield text and translation of every entry that is translated.

    Fuzzy and obsolete entries, the header and empty translations are passed over; a
    context is no part of the text. An entry with plurals gives two pairs: the singular
    with the form for 1, the plural with the form for 5; where the language has one
    form for both, only the second. Texts are as written: accelerators, placeholders
    and line ends are the cleaning's affair.

    Args:
        path: A `.po` or `.mo` file, each also compressed; memory holds it whole.
        language: Code of the translations' language.
        source: Code of the texts' language.

    Raises:
        InputError: The file breaks the format, names a character set that it is not
            in, has a plural rule that is no expression, or has no translation.
    """
    rule, empty = "", True
    for ids, texts in _entries(path):
        if ids == [""]:
            rule = _field(texts[0], "Plural-Forms") or rule
            continue
        wanted = {0: ids[0]}
        if len(ids) > 1:
            one, many = _forms(rule, path)
            wanted = {one: ids[0], many: ids[1]}  # one form for both is the plural's
        for form, text in wanted.items():
            if form < len(texts) and text and texts[form]:
                empty = False
                yield text, texts[form]
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
    header = next((texts[0] for ids, texts in _entries(path) if ids == [""]), "")
    folder = path.parent.parent.name if path.parent.name == "LC_MESSAGES" else ""
    stem = unpacked(path).stem.rpartition(".")[2]
    if re.fullmatch("[a-z]{3}", stem):  # any word: `app.po`, `gui.po`
        stem = ""
    targets = map(_code, (_field(header, "Language"), folder, stem))
    return _code(_field(header, "X-Source-Language")), next(filter(None, targets), None)


def _code(text: str) -> str | None:
    """Return the language of a code such as `pt_BR.UTF-8`."""
    match = re.fullmatch(rf"({CODE})(?:\..*)?", text)
    return match[1] if match else None


def _field(header: str, name: str) -> str:
    """Return a field of a header, which may go on in lines without a name."""
    field = re.search(rf"(?ims)^{name}\s*:(.*?)(?=^[\w-]+\s*:|\Z)", header)
    return field[1].strip() if field else ""


@lru_cache(maxsize=1)
def _forms(rule: str, path: Path) -> tuple[int, int]:
    """Return which `msgstr[n]` stand for one and for many."""
    if "".join(rule.split()) in ("", UNSET):
        return 0, 1
    try:
        form = gettext.c2py(re.findall(r"plural\s*=([^;]*)|$", rule)[0])
        one, many = form(ONE), form(MANY)
        if min(one, many) < 0:
            raise ValueError(f"it gives {min(one, many)}")
        return one, many
    except WRONG_RULE as error:
        raise InputError(
            f"`{path}`: `Plural-Forms` in the header must be a rule such as "
            f"`nplurals=2; plural=(n != 1);`. Received: {rule!r:.80} ({error})."
        ) from error


def _entries(path: Path) -> Iterator[Texts]:
    """Yield all entries that are neither fuzzy nor obsolete, and the header."""
    with open_bytes(path) as handle:
        data = handle.read(CATALOGUE.most + 1)
    CATALOGUE.check(len(data), f"`{path}`", REPAIR)
    if unpacked(path).suffix == ".mo":
        return _compiled(path, data)
    return _written(path, data.removeprefix(codecs.BOM_UTF8))


def _written(path: Path, data: bytes) -> Iterator[Texts]:
    """Read a `.po`. Comments may be in another character set; only flags count."""
    charset = _charset(data, path)
    entry: dict[str, list[str]] = {}  # its texts by `msgid`, `msgstr[0]` etc.
    last, fuzzy, left_out = "", False, False
    for number, raw in enumerate(data.split(b"\n"), 1):
        where = f"`{path}`, line {number}"
        raw = raw.strip(b" \t\r\f\v")  # only these: the text may end in U+00A0
        if not raw or raw.startswith((b"#", b"domain")):
            if raw.startswith((b"#,", b"#~")):
                fuzzy = raw[1:2] == b"," and (fuzzy or b"fuzzy" in raw)
            continue
        line = _decoded(raw, charset, where)
        match = LINE.fullmatch(line)
        if match is None:
            raise InputError(
                f"{where}: a line must be a comment, a text in quotes, or one after "
                f"msgctxt, msgid, msgid_plural or msgstr. Received: {line!r:.80}."
            )
        name = match[1] or last
        if name in ("msgctxt", "msgid") and last.startswith("msgstr"):
            yield from _finished(entry, left_out, where)
            entry = {}
        if not entry:
            left_out, fuzzy = fuzzy, False
        if not name or (match[1] and name in entry):
            raise InputError(
                f"{where}: an entry must be msgctxt, msgid, msgid_plural (both if any) "
                "and msgstr once, or msgstr[0], msgstr[1], ... after a plural. "
                f"Received: {line!r:.80}."
            )
        text = "".join(LITERAL.findall(match[2]))
        entry.setdefault(name, []).append(_unescaped(text, where))
        last = name
    if entry:
        yield from _finished(entry, left_out, where)


def _finished(
    entry: dict[str, list[str]], left_out: bool, where: str
) -> Iterator[Texts]:
    """Yield the texts of an entry; of a fuzzy one only if it is the header."""
    joined = {name: "".join(parts) for name, parts in sorted(entry.items())}
    ids = [joined[name] for name in ("msgid", "msgid_plural") if name in joined]
    texts = [text for name, text in joined.items() if name.startswith("msgstr")]
    if "msgid" not in entry or ("msgstr" in entry) == ("msgid_plural" in entry):
        raise InputError(
            f"{where}: the entry before must have msgid and msgstr, or with a plural "
            f"msgid_plural and msgstr[0]. Received: {', '.join(entry)}. Get the whole "
            "catalogue."
        )
    if ids == [""] or not left_out:
        yield ids, texts


def _unescaped(text: str, where: str) -> str:
    def meant(match: re.Match[str]) -> str:
        if match[1] not in ESCAPES:
            raise InputError(
                f"{where}: `{match[0]}` is no escape. Received: {text!r:.80}. Write "
                "`\\\\` for a backslash; numbers become characters by: msgcat"
            )
        return ESCAPES[match[1]]

    return re.sub(r"\\(.)", meant, text)


def _compiled(path: Path, data: bytes) -> Iterator[Texts]:
    """Read a `.mo` of either byte order."""
    if data[:4] not in MAGIC:
        raise InputError(
            f"`{path}` must begin with the number of a compiled catalogue, 0x950412de. "
            f"Received: 0x{data[:4].hex()}. Give a .mo file, or its .po."
        )
    order = "<" if data[:4] == MAGIC[0] else ">"
    charset, size = "utf-8", 0
    damage = f"`{path}` is damaged or truncated. Compile it again: msgfmt"
    with explained(damage, struct.error):
        count, *tables = struct.unpack_from(f"{order}3I", data, 8)
        for index in range(count):
            where, parts = f"`{path}`, entry {index + 1}", list[bytes]()
            for table in tables:
                length, place = struct.unpack_from(
                    f"{order}2I", data, table + 8 * index
                )
                parts += struct.unpack_from(f"{length}s", data, place)
                size += length  # all entries may point to one text
            CATALOGUE.check(size, where, REPAIR)
            if not parts[0]:  # the header: it sorts first
                charset = _charset(parts[1], path)
            ids, text = (_decoded(part, charset, where) for part in parts)
            names = ids.rpartition("\x04")[2].split("\0")
            yield names, text.split("\0") if len(names) > 1 else [text]


def _charset(data: bytes, path: Path) -> str:
    """Return the codec that a header names, UTF-8 if it names none.

    Raises:
        InputError: Python has no such codec, or it is none of text in bytes.
    """
    match = CHARSET.search(data)
    name = match[1].decode("latin-1") if match else "CHARSET"
    if name == "CHARSET":  # so it stands in new templates
        return "utf-8"
    message = (
        f"`{path}`: the header's charset must be one that Python reads and that holds "
        f"ASCII. Received: {name!r:.40}. Convert the file: msgconv -t UTF-8"
    )
    with explained(message, LookupError, ValueError):
        charset = codecs.lookup(name).name
        # Byte codecs such as `zip` or `hex`, and UTF-16, cannot hold a catalogue.
        if charset in NO_CHARSETS or "a".encode(charset) != b"a":
            raise LookupError(name)
    return charset


def _decoded(data: bytes, charset: str, where: str) -> str:
    repair = "So the header says, or says nothing: repair its charset, or convert it."
    return decoded(data, charset, where, lambda: repair)
