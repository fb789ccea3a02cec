"""Gettext catalogues: against Python's own reader, and mistake by mistake."""

import gettext
import gzip
import io
import struct

import pytest

from keras_msd.checks import InputError
from keras_msd.data import Pair, read_pairs

HEADER = (
    "Language: pl\nContent-Type: text/plain; charset={}\n"
    "Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && "
    "(n%100<10 || n%100>=20) ? 1 : 2);\n"
)

ENTRIES = r"""
msgid ""
msgstr ""
"Language: pl\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 "
"|| n%100>=20) ? 1 : 2);\n"

#: main.c:10
#, c-format
msgid "Open \"%s\"\tnow\\\n"
msgstr "Otwórz „%s” Cą!\n"

msgctxt "month"
msgid "May"
msgstr "maj"
msgctxt "verb"
msgid "May"
msgstr "może"

#, c-format, fuzzy
#| msgid "Old"
msgid "Fuzzy"
msgstr "Rozmyte"

msgid ""
"A long "
"line."
msgstr "Długa " "linia."

msgid "One file"
msgid_plural "%d files"
msgstr[0] "Jeden plik"
msgstr[1] "%d pliki"
msgstr[2] "%d plików"

msgid "Untranslated"
msgstr ""

#~ msgid "Obsolete"
#~ msgstr "Stare"

msgid "Last"
msgstr "Ostatnie"
"""
PAIRS = [
    Pair('Open "%s"\tnow\\\n', "Otwórz „%s” Cą!\n", "pl"),
    Pair("May", "maj", "pl"),
    Pair("May", "może", "pl"),
    Pair("A long line.", "Długa linia.", "pl"),
    Pair("One file", "Jeden plik", "pl"),
    Pair("%d files", "%d plików", "pl"),
    Pair("Last", "Ostatnie", "pl"),
]


def made(tmp_path, name, data):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def compiled(entries, order="<", charset="utf-8", header=HEADER):
    """Compile {msgid: msgstr} as msgfmt does: sorted, offsets after two tables."""
    entries = {"": header.format(charset), **entries}
    pairs = sorted((k.encode(charset), v.encode(charset)) for k, v in entries.items())
    tables, texts = b"", b""
    start = 28 + 16 * len(pairs)
    for side in (0, 1):
        for pair in pairs:
            tables += struct.pack(f"{order}2I", len(pair[side]), start + len(texts))
            texts += pair[side] + b"\0"
    head = (0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return struct.pack(f"{order}7I", *head) + tables + texts


CATALOGUE = {
    "May": "maj",
    "verb\x04May": "może",
    "One file\0%d files": "Jeden plik\0%d pliki\0%d plików",
    "Name: ": "Imię: ",
    "Empty": "",
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_po(tmp_path, packed, end):
    data = ("\ufeff" + ENTRIES.replace("\n", end)).encode()
    path = made(
        tmp_path, "x.po" + ".gz" * packed, gzip.compress(data) if packed else data
    )
    assert list(read_pairs(path)) == PAIRS
    assert list(read_pairs(tmp_path)) == PAIRS, "a folder of catalogues is a corpus"


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-2", "utf-8 compressed"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_mo_reads_what_python_reads(tmp_path, order, charset):
    charset, _, packed = charset.partition(" ")
    data = compiled(CATALOGUE, order, charset)
    name = "x.mo.gz" if packed else "x.mo"
    path = made(tmp_path, name, gzip.compress(data) if packed else data)
    python = gettext.GNUTranslations(io.BytesIO(data))
    expected = {
        ("May", python.gettext("May"), "pl"),
        ("May", python.pgettext("verb", "May"), "pl"),
        ("One file", python.ngettext("One file", "%d files", 1), "pl"),
        ("%d files", python.ngettext("One file", "%d files", 5), "pl"),
        ("Name: ", python.gettext("Name: "), "pl"),
    }
    assert {pair[:3] for pair in read_pairs(path)} == expected
    assert ("May", "może", "pl") in expected


@pytest.mark.parametrize(
    ("rule", "forms", "expected"),
    [
        ("nplurals=1; plural=0;", ["B"], [("many", "B")]),
        ("nplurals=2; plural=n>1;", ["A", "B"], [("one", "A"), ("many", "B")]),
        ("", ["A", "B"], [("one", "A"), ("many", "B")]),
        (
            "nplurals=INTEGER; plural=EXPRESSION;",
            ["A", "B"],
            [("one", "A"), ("many", "B")],
        ),
        (
            "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 "
            "? 3 : n%100>=11 ? 4 : 5;",
            ["0", "A", "2", "B", "11", "100"],
            [("one", "A"), ("many", "B")],
        ),
        ("nplurals=2; plural=n!=1;", ["A", ""], [("one", "A")]),
        ("nplurals=2; plural=n!=1;", ["A"], [("one", "A")]),
    ],
)
def test_plurals(tmp_path, rule, forms, expected):
    header = "Content-Type: text/plain; charset=UTF-8\n"
    header += f"Plural-Forms: {rule}\n" if rule else ""
    data = compiled({"one\0many": "\0".join(forms)}, header=header)
    path = made(tmp_path, "x.en-xx.mo", data)
    assert [pair[:2] for pair in read_pairs(path)] == expected


@pytest.mark.parametrize(
    ("header", "name", "code"),
    [
        ("Language: de\\n", "fr.po", "de"),
        ("Language: pt_BR.UTF-8\\n", "x.po", "pt_BR"),
        ("Language: sr@latin\\n", "x.po", "sr@latin"),
        ("Language: \\n", "content.de.po", "de"),
        ("", "de.po", "de"),
        ("", "zh_CN.po.gz", "zh_CN"),
        ("", "fil/LC_MESSAGES/app.po", "fil"),
        ("Language: de\\n", "app.en-fr.po", "fr"),
    ],
)
def test_language(tmp_path, header, name, code):
    text = f'msgid ""\nmsgstr "{header}"\n\nmsgid "A"\nmsgstr "B"\n'.encode()
    path = made(tmp_path, name, gzip.compress(text) if name.endswith("gz") else text)
    assert list(read_pairs(path)) == [Pair("A", "B", code)]


def test_language_that_nothing_says(tmp_path):
    path = made(tmp_path, "app.po", 'msgid "A"\nmsgstr "B"\n')
    with pytest.raises(InputError, match="language is not clear"):
        read_pairs(path)
    assert list(read_pairs(path, language="de")) == [Pair("A", "B", "de")]


def test_other_character_sets(tmp_path):
    text = (
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=Shift_JIS\\n"\n'
        'msgid "Table"\nmsgstr "表\\n"\n'  # the second byte of 表 is a backslash
    )
    path = made(tmp_path, "ja.po", "# 日本語\n".encode() + text.encode("shift_jis"))
    assert list(read_pairs(path)) == [Pair("Table", "表\n", "ja")]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('msgid "A\nmsgstr "B"', "line 1: a line must be .*Received: 'msgid \"A'"),
        ('"A"', "line 1: an entry must be"),
        ('msgid "A"\nmsgid "B"\nmsgstr "C"', "line 2: an entry must be msgctxt, msgid"),
        ('msgstr "C"', "line 1: the entry before must have .*Received: msgstr"),
        ('msgid "A"\nmsgstr[0] "C"', "line 2: the entry before must have"),
        ('msgid "A"\nmsgid_plural "B"\nmsgstr "C"', "line 3: the entry before must"),
        ('msgid "A"\nmsgstr "B"\nmsgstr "C"', "line 3: an entry must be"),
        ('msgid "A"\nmsgstr "B"\n\nmsgid "C"\n"D"\n', "line 6: the entry before must"),
        ('msgid "A"\nmsgstr "\\q"', r"line 2: `\\q` is no escape"),
        ('msgid "A"\nmsgstr "\\377"', r"line 2: `\\3` is no escape.*msgcat"),
        (b'msgid "A"\nmsgstr "\xff"', "line 2: text must be utf-8.*0xff"),
        (
            'msgid ""\nmsgstr "Content-Type: text/plain; charset=klingon\\n"',
            "charset must be .*'klingon'",
        ),
        (
            'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-16\\n"',
            "charset must be .*'utf-16'",
        ),
        (
            'msgid ""\nmsgstr "Content-Type: text/plain; charset=zip\\n"',
            "charset must be .*'zip'",
        ),
        ('msgid "A"\nmsgstr ""', "has no translated entry"),
        (b"\n", "has no translated entry"),
        (b"", "is empty"),
        (
            'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=__import__;\\n"\n'
            'msgid "A"\nmsgid_plural "B"\nmsgstr[0] "C"\nmsgstr[1] "D"\n',
            "`Plural-Forms` in the header must be a rule",
        ),
    ],
)
def test_broken_po(tmp_path, text, match):
    path = made(tmp_path, "x.en-de.po", text)
    with pytest.raises(InputError, match=f"(?s)x.en-de.po`.*{match}"):
        list(read_pairs(path))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda data: b"PK\3\4" + data[4:], "must begin with the number.*0x504b0304"),
        (lambda data: data[:10], "damaged or truncated"),
        (lambda data: data[:60], "damaged or truncated"),
        (lambda data: data[:-5], "damaged or truncated"),
        (
            lambda data: data.replace(b"maj", b"m\xff\xff"),
            "entry 3: text must be utf-8",
        ),
        (lambda data: b"", "is empty"),
    ],
)
def test_broken_mo(tmp_path, change, match):
    path = made(tmp_path, "x.en-pl.mo", change(compiled(CATALOGUE)))
    with pytest.raises(InputError, match=f"(?s)x.en-pl.mo`.*{match}"):
        list(read_pairs(path))


def test_flag_of_an_obsolete_entry_is_not_the_next_ones(tmp_path):
    text = '#, fuzzy\n#~ msgid "Old"\n#~ msgstr "Alt"\n\nmsgid "New"\nmsgstr "Neu"\n'
    (tmp_path / "de.po").write_text(text)
    assert list(read_pairs(tmp_path / "de.po")) == [Pair("New", "Neu", "de")]


@pytest.mark.parametrize(
    "before",
    [
        '# see charset=ISO-8859-1\n\nmsgid ""\nmsgstr ""\n"X: y; charset=UTF-8\\n"\n\n',
        '# charset=your choice\r\nmsgid ""\r\nmsgstr "A: charset=UTF-8\\n"\r\n\r\n',
        'msgid "Set charset=ISO-8859-1 there"\nmsgstr ""\n\n',
        'msgid ""\n"charset=ISO-8859-1 "\n"there"\nmsgstr ""\n\n',
    ],
)
def test_only_the_header_names_the_character_set(tmp_path, before):
    text = before + 'msgid "Size"\nmsgstr "Größe"\n'
    (tmp_path / "de.po").write_bytes(text.encode())
    assert list(read_pairs(tmp_path / "de.po")) == [Pair("Size", "Größe", "de")]


def test_space_between_the_lines_of_an_entry(tmp_path):
    text = 'msgid ""\n\n"A "\n  # why\n"house"\n\n\tmsgstr"Haus\u2028"\n'
    (tmp_path / "de.po").write_text(f'#,fuzzy\n#~ msgid "x\n\n{text}')
    assert list(read_pairs(tmp_path / "de.po")) == [Pair("A house", "Haus\u2028", "de")]


def test_names_in_the_header_in_any_case(tmp_path):
    text = ENTRIES.replace("Plural-Forms", "plural-forms").replace(
        "Language", "LANGUAGE"
    )
    (tmp_path / "some.po").write_text(text)
    pairs = list(read_pairs(tmp_path / "some.po"))
    assert Pair("%d files", "%d plików", "pl") in pairs


FIELDS = '"Language: ja\\n"\n"Plural-Forms: nplurals=1; plural=0;\\n"\n'


@pytest.mark.parametrize(
    ("before", "fields"),
    [
        ("", '"\\n"\n' + FIELDS),
        ("", '"no field\\n"\n' + FIELDS),
        ("", '"Project-Id-Version: x\\n"\n"\\n"\n' + FIELDS),
        ("", '"Plural-Forms: nplurals=1;\\n"\n"plural=0;\\n"\n"Language: ja\\n"\n'),
        ('msgid "first"\nmsgstr "erster"\n\n', FIELDS),
    ],
)
def test_headers_that_are_not_in_order(tmp_path, before, fields):
    text = f'{before}msgid ""\nmsgstr ""\n{fields}\n'
    text += 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d filer"\n'
    path = made(tmp_path, "app.po", text.encode())
    pairs = list(read_pairs(path, language="ja" if before else None))
    assert pairs[-1] == Pair("%d files", "%d filer", "ja")
