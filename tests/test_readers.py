"""Readers: every format gives the pairs that were written, as often as asked."""

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
