"""Readers: every format gives the pairs that were written, or one clear error."""

import functools
import gzip
import json

import pytest

from keras_msd.checks import InputError
from keras_msd.data import READERS, Pair, Pairs, Reader, TextTable, read_pairs
from keras_msd.data.pair import PairFile
from keras_msd.data.readers.lines import csv_rows

ROWS = [
    ("A house.", "Ein Haus."),
    ('Tea, "please"', 'Tee, "bitte"'),
    ("Naïve café ☕", "Ägypten 👩‍🚀"),
    ("line\u2028separator", "zwei\x85 Zeilen"),
]
PAIRS = [Pair(*row, "de") for row in ROWS]

TMX = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>A house.</seg></tuv>
    <tuv xml:lang="de-DE"><seg>Ein <hi>Haus</hi>.</seg></tuv></tu>
<tu><tuv lang="DE"><seg>Tee <bpt i="1">&lt;b></bpt>&amp; Milch</seg></tuv>
    <tuv lang="EN"><seg>Tea &amp; milk</seg></tuv>
    <tuv lang="fr"><seg>Thé</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Only English</seg></tuv></tu>
</body></tmx>
"""


def write(path, text, packed=False):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def tsv(rows=ROWS):
    return "".join(f"{source}\t{target}\n" for source, target in rows)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tsv(tmp_path, packed, end):
    name = "news.en-de.tsv" + ".gz" * packed
    text = "\ufeff" + tsv().replace("\n", end).removesuffix(end)  # no end at the end
    pairs = read_pairs(write(tmp_path / name, text, packed))
    assert list(pairs) == PAIRS
    assert list(pairs) == PAIRS, "a corpus can be walked through twice"
    assert [(file.name, file.language) for file in pairs.files] == [(name, "de")]


@pytest.mark.parametrize("packed", [False, True])
def test_moses(tmp_path, packed):
    tail = ".gz" * packed
    for code, side in (("en", 0), ("de", 1)):
        text = "".join(row[side] + "\n" for row in ROWS)
        write(tmp_path / f"TED.de-en.{code}{tail}", text, packed)
    write(tmp_path / "TED.de-en.xml", "<links/>")
    write(tmp_path / "TED.de-en.ids", "1\t1\n")
    for given in (tmp_path, tmp_path / f"TED.de-en.en{tail}"):
        pairs = read_pairs(given)
        assert list(pairs) == PAIRS
        assert [(one.name, one.language) for one in pairs.files] == [
            ("TED.de-en.en-de", "de")
        ]
    both = [tmp_path / f"TED.de-en.{code}{tail}" for code in ("en", "de")]
    assert list(read_pairs(both)) == PAIRS, "two names of one corpus are read once"


def test_moses_with_several_languages(tmp_path):
    for code, text in (("en", "one\n"), ("de", "eins\n"), ("pt_BR", "um\n")):
        write(tmp_path / f"x.{code}", text)
    german = Pair("one", "eins", "de")
    assert list(read_pairs(tmp_path / "x.en")) == [german, Pair("one", "um", "pt_BR")]
    assert list(read_pairs(tmp_path / "x.en", language="de")) == [german]


@pytest.mark.parametrize("packed", [False, True])
def test_tmx(tmp_path, packed):
    path = write(tmp_path / ("memory.tmx" + ".gz" * packed), TMX, packed)
    german = [
        Pair("A house.", "Ein Haus.", "de"), Pair("Tea & milk", "Tee & Milch", "de"),
    ]  # fmt: skip
    assert list(read_pairs(path)) == german
    assert list(read_pairs(path, language="fr")) == [Pair("Tea & milk", "Thé", "fr")]
    assert list(read_pairs(path, language="de-DE")) == [
        Pair("A house.", "Ein Haus.", "de-DE")
    ]


def test_tmx_longer_than_a_block(tmp_path):
    unit = (
        "<tu><tuv xml:lang='en'><seg>Number {0} é</seg></tuv>"
        "<tuv xml:lang='de'><seg>Zahl {0} ü</seg></tuv></tu>"
    )
    body = "".join(unit.format(n) for n in range(3000))
    path = write(tmp_path / "long.en-de.tmx", f"<tmx><body>{body}</body></tmx>")
    assert path.stat().st_size > 4 * 65536
    expected = [Pair(f"Number {n} é", f"Zahl {n} ü", "de") for n in range(3000)]
    assert list(read_pairs(path)) == expected


@pytest.mark.parametrize(
    "form",
    [
        lambda s, t: {"source": s, "target": t, "id": 1},
        lambda s, t: {"en": s, "de": t, "source": "web"},
        lambda s, t: {"translation": {"en": s, "de": t}},
        lambda s, t: {"translation": {"source": s, "target": t}},
    ],
)
def test_jsonl(tmp_path, form):
    text = "".join(json.dumps(form(*row)) + "\n" for row in ROWS)
    assert list(read_pairs(write(tmp_path / "web.en-de.jsonl", text))) == PAIRS


def test_jsonl_names_its_own_language(tmp_path):
    path = write(tmp_path / "web.jsonl", '{"id": "7", "en": "one", "tr": "bir"}\n')
    assert list(read_pairs(path)) == [Pair("one", "bir", "tr")]


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("news.en-de.tsv", "de"),
        ("tatoeba.deu-eng.tsv.gz", "deu"),
        ("a-b.c-d.en-zh_CN.tsv", "zh_CN"),
        ("x.en-zh-Hant.tsv", "zh-Hant"),
    ],
)
def test_language_in_a_name(tmp_path, name, language):
    path = write(tmp_path / name, tsv(), packed=name.endswith("gz"))
    assert read_pairs(path).languages == [language]


def test_folder_pattern_and_list(tmp_path):
    for name in ("b.en-fr.tsv", "a.en-de.tsv", "c.en-de.tsv"):
        write(tmp_path / name, tsv())
    write(tmp_path / "notes.txt", "not a corpus")
    names = [file.name for file in read_pairs(tmp_path).files]
    assert names == ["a.en-de.tsv", "b.en-fr.tsv", "c.en-de.tsv"]
    pattern = read_pairs(str(tmp_path / "*.en-de.tsv"))
    assert [file.name for file in pattern.files] == ["a.en-de.tsv", "c.en-de.tsv"]
    both = read_pairs([tmp_path / "c.en-de.tsv", tmp_path])
    assert [file.name for file in both.files] == ["c.en-de.tsv", *names[:2]]
    assert both.languages == ["de", "fr"]


def test_format_and_language_as_arguments(tmp_path):
    path = write(tmp_path / "pairs.txt", tsv())
    assert list(read_pairs(path, format="tsv", language="de")) == PAIRS


def test_list_in_memory():
    pairs = Pairs.from_list([("a", "b", "de"), ("c", "d", "fr"), ("e", "f", "de")])
    assert [file.language for file in pairs.files] == ["de", "fr"]
    wanted = [Pair("a", "b", "de"), Pair("e", "f", "de"), Pair("c", "d", "fr")]
    assert list(pairs) == list(pairs) == wanted


def test_digest_follows_the_content(tmp_path):
    path = write(tmp_path / "x.en-de.tsv", tsv())
    first = read_pairs(path).digest()
    (tmp_path / "copy").mkdir()
    copy = write(tmp_path / "copy" / "x.en-de.tsv", tsv())
    assert read_pairs(copy).digest() == first
    write(copy, tsv(ROWS[:3]))
    assert read_pairs(copy).digest() != first
    lists = [[("a", "b", "de")], [("ab", "", "de")], [("a", "b", "fr")]]
    assert len({Pairs.from_list(one).digest() for one in lists}) == 3


def test_real_corpora(shared_data):
    pairs = read_pairs(shared_data / "parallel" / "dev")
    counts = {}
    for pair in pairs:
        counts[pair.language] = counts.get(pair.language, 0) + 1
    assert len(counts) == 12 and set(counts.values()) == {1000}


def test_no_pairs():
    with pytest.raises(InputError, match="must hold a pair"):
        Pairs.from_list([])


@pytest.mark.parametrize(
    "name", ["wmt.de-en.tsv.gz", "ted-de-en.tsv", "x.de-en-GB.tsv"]
)
def test_tsv_with_english_second_by_its_name(tmp_path, name):
    path = write(tmp_path / name, tsv(), packed=name.endswith("gz"))
    with pytest.raises(
        InputError, match="first column must be English.*`<corpus>.en-de"
    ):
        list(read_pairs(path))
    assert list(read_pairs(path.rename(tmp_path / "y.en-de.tsv"))) == PAIRS


def read_csv(path, languages):
    for _, row in csv_rows(path):
        yield tuple(row)


@pytest.fixture
def csv_reader(monkeypatch):
    monkeypatch.setitem(READERS, "commas", Reader(suffixes=(".com",), read=read_csv))


CSV = 'A house.,Ein Haus.\n"Tea, please",Tee\n'
CSV_PAIRS = [Pair("A house.", "Ein Haus.", "de"), Pair("Tea, please", "Tee", "de")]


@pytest.mark.parametrize("packed", [False, True])
def test_a_reader_from_outside(tmp_path, csv_reader, packed):
    path = write(tmp_path / ("x.en-de.com" + ".gz" * packed), CSV, packed)
    write(tmp_path / "y.en-fr.tsv", tsv())
    assert list(read_pairs(path)) == CSV_PAIRS
    assert read_pairs(tmp_path).languages == ["de", "fr"]
    plain = write(tmp_path / "pairs.txt", CSV)
    assert list(read_pairs(plain, format="commas", language="de")) == CSV_PAIRS
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", write(tmp_path / "pairs.docx", CSV)):
        with pytest.raises(InputError, match=r"Known: \.tsv, .*\.com \(each also \.gz"):
            read_pairs(place)
    with pytest.raises(InputError, match="`format` must be one of .*'commas'"):
        read_pairs(path, format="cvs")
    with pytest.raises(InputError, match="`<corpus>.en-<xx>.com` or give `language`"):
        read_pairs(path.rename(tmp_path / "unnamed.com"))


def test_a_reader_from_outside_finds_the_language_in_the_file(tmp_path, monkeypatch):
    def language(path):
        return path.read_text().split()[0]

    reader = Reader(suffixes=(".hd",), read=read_csv, language=language)
    monkeypatch.setitem(READERS, "head", reader)
    assert read_pairs(write(tmp_path / "x.hd", "pl rows")).languages == ["pl"]


def test_the_suffix_of_a_reader_is_no_language(tmp_path, monkeypatch):
    for code in ("en", "de", "xyz"):
        write(tmp_path / f"x.{code}", "a line\n")
    assert read_pairs(tmp_path / "x.en").languages == ["de", "xyz"]
    monkeypatch.setitem(READERS, "xyz", Reader(suffixes=(".xyz",), read=read_csv))
    assert read_pairs(tmp_path / "x.en").languages == ["de"]


def test_a_reader_may_take_the_place_of_another(tmp_path, monkeypatch):
    path = write(tmp_path / "x.en-de.csv", CSV)
    monkeypatch.setitem(READERS, "plain", Reader(suffixes=(".csv",), read=read_csv))
    assert list(read_pairs(path)) == CSV_PAIRS


def test_a_reader_gets_both_languages(tmp_path, monkeypatch):
    def read(path, languages):
        yield languages

    monkeypatch.setitem(READERS, "own", Reader(suffixes=(".own",), read=read))
    (tmp_path / "a.fr-de.own").touch()
    (pair,) = read_pairs(tmp_path / "a.fr-de.own")
    assert pair[:2] == ("fr", "de")


def test_rows_of_a_builtin(tmp_path):
    rows = functools.partial(zip, ["A house."], ["Ein Haus."])
    pairs = Pairs([PairFile("made", "de", rows, (), "rows")])
    table = TextTable.build(pairs, tmp_path / "table", cleaning=None)
    assert table.counts[0]["kept"] == 1


def test_a_file_whose_name_says_all_is_opened_when_it_is_read(tmp_path):
    (tmp_path / "a.en-de.tmx").write_text("no TMX", encoding="utf-8")
    pairs = read_pairs(tmp_path / "a.en-de.tmx")
    with pytest.raises(InputError, match="well-formed XML"):
        list(pairs)


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
