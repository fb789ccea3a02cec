"""Every mistake in a corpus is one message with file, line and what was received."""

import gzip

import pytest

from keras_msd.checks import InputError
from keras_msd.data import Pairs, read_pairs

GOOD = b"A house.\tEin Haus.\n"


def fails(path, match, **options):
    with pytest.raises(InputError, match=f"(?s){match}") as caught:
        list(read_pairs(path, **options))
    return str(caught.value)


def made(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    return tmp_path / name


def test_missing_file(tmp_path):
    fails(tmp_path / "x.en-de.tsv", "x.en-de.tsv` does not exist.*Give the path")
    fails(str(tmp_path / "*.tsv"), "does not exist")
    fails([], "empty list")


@pytest.mark.parametrize("data", [b"", gzip.compress(b"")], ids=["plain", "packed"])
def test_empty_file(tmp_path, data):
    fails(made(tmp_path, "x.en-de.tsv", data), "x.en-de.tsv` is empty")


@pytest.mark.parametrize("name", ["x.en-de.tsv", "x.en-de.csv", "x.en-de.tsv.gz"])
def test_names_of_columns_alone(tmp_path, name):
    data = b"en\tde\n"
    data = gzip.compress(data) if name.endswith("gz") else data
    fails(made(tmp_path, name, data), "must hold a pair.*names of columns alone")


def test_folder_without_a_corpus(tmp_path):
    made(tmp_path, "README.md", b"text")
    fails(tmp_path, "holds no parallel corpus.*tsv.*tmx.*jsonl")


@pytest.mark.parametrize(
    ("line", "columns"), [(b"a\tb\tc\n", 3), (b"alone\n", 1), (b"\n", 1)]
)
def test_wrong_number_of_columns(tmp_path, line, columns):
    path = made(tmp_path, "x.en-de.tsv", GOOD + line + GOOD)
    text = fails(path, f"x.en-de.tsv`, line 2: .*2 columns.*Received: {columns} column")
    assert repr(line.decode()[:-1]) in text
    assert "Remove the line" in text


@pytest.mark.parametrize("name", ["x.en-de.tsv", "x.en-de.jsonl"])
def test_broken_utf8(tmp_path, name):
    start = GOOD if name.endswith("tsv") else b'{"source": "a", "target": "b"}\n'
    path = made(tmp_path, name, start * 2 + b"abc\xff\xfe\tx\n")
    fails(path, "line 3: text must be UTF-8.*0xff at position 4.*iconv")


def test_truncated_gzip(tmp_path):
    data = gzip.compress(b"".join(b"%d\t%d\n" % (n, n * n) for n in range(9999)))
    path = made(tmp_path, "x.en-de.tsv.gz", data[: len(data) // 2])
    fails(path, "x.en-de.tsv.gz` is a damaged or truncated gzip file")
    path = made(tmp_path, "y.en-de.tsv.gz", data[:5000] + b"\0" * 99 + data[5099:])
    fails(path, "y.en-de.tsv.gz` is a damaged or truncated gzip file")


def test_endless_line(tmp_path):
    fails(made(tmp_path, "x.en-de.tsv", GOOD + b"a" * (1 << 21)), "line 2.*1048576")


@pytest.mark.parametrize(("english", "german"), [(3, 2), (2, 3)])
def test_moses_line_counts(tmp_path, english, german):
    made(tmp_path, "x.en", b"line\n" * english)
    made(tmp_path, "x.de", b"Zeile\n" * german)
    short, long = ("x.en", "x.de") if english < german else ("x.de", "x.en")
    fails(
        tmp_path / "x.en",
        f"as many lines.*{short}` ends after line 2, .*{long}` goes on",
    )


def test_moses_without_partner(tmp_path):
    path = made(tmp_path, "x.en", b"line\n")
    fails(path, "needs a file `x.<language>` beside it")
    fails(path, "needs the file `x.fr` or `x.fr.gz`", language="fr")
    fails(made(tmp_path, "y.de", b"a\n"), "`x.en` beside|English file", format="moses")


def test_unknown_format_and_language(tmp_path):
    fails(made(tmp_path, "pairs.docx", GOOD), "format is not clear.*Give `format`")
    fails(made(tmp_path, "pairs.tsv", GOOD), "language is not clear.*give `language`")
    path = made(tmp_path, "x.en-de.tsv", GOOD)
    fails(path, "contradicts.*'fr'.*'de'", language="fr")
    fails(path, "`format` must be one of.*Did you mean `tsv`", format="tvs")


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
BOMB = f"""<?xml version="1.0"?><!DOCTYPE tmx [<!ENTITY e0 "ha">{ENTITIES}]>
<tmx><body><tu><tuv xml:lang="en"><seg>&e9;</seg></tuv></tu></body></tmx>"""


def test_tmx_mistakes(tmp_path):
    """Two gigabytes of text are not expanded, and no other file is read."""
    fails(made(tmp_path, "x.en-de.tmx", BOMB.encode()), "well-formed XML.*amplif")
    external = BOMB.replace('e9 "', 'e9 SYSTEM "file:///etc/passwd" "')
    fails(made(tmp_path, "x.en-de.tmx", external.encode()), "well-formed XML|no unit")
    whole = (
        b"<tmx><body>\n<tu><tuv xml:lang='en'><seg>one</seg></tuv>"
        b"<tuv xml:lang='fr'><seg>un</seg></tuv></tu></body></tmx>"
    )
    fails(made(tmp_path, "x.en-fr.tmx", whole[:-9]), "line 2.*well-formed XML")
    fails(made(tmp_path, "x.en-de.tmx", whole), "no unit in `en` and `de`.*en, fr")


@pytest.mark.parametrize(
    ("line", "match"),
    [
        (b"not json\n", "must be a JSON object.*not json"),
        (b"[1, 2]\n", "must be a JSON object"),
        (b'{"en": "a", "fr": "b"}\n', "under `en` and `de`.*'en', 'fr'"),
        (b'{"source": "a", "target": 3}\n', "must have texts"),
        (b'{"source": "a", "target": "\\ud800"}\n', "surrogate"),
        (b"[" * 100_000 + b"\n", "must be a JSON object"),
    ],
)
def test_jsonl_mistakes(tmp_path, line, match):
    good = b'{"en": "a", "de": "b"}\n'
    fails(made(tmp_path, "x.en-de.jsonl", good + line), f"line 2: .*{match}")


@pytest.mark.parametrize(
    "item", [("a", "b"), ("a", "b", 3), "abc", ("a", "\ud800", "de")]
)
def test_lists_hold_triples_of_texts(item):
    with pytest.raises(InputError, match="position 1"):
        Pairs.from_list([("a", "b", "de"), item])
