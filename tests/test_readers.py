"""Files as other tools write them: read exactly, or refused with what to do."""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import shutil
import subprocess
import zipfile

import pytest

from keras_msd.checks import InputError
from keras_msd.data import READERS, Pair, Pairs, Reader, TextTable, read_pairs
from keras_msd.data.readers.lines import csv_rows, read_texts
from keras_msd.data.readers.tables import pairs_of_rows

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
HOUSE = Pair("A house.", "Ein Haus.", "de")
CAT = Pair("A cat.", "Eine Katze.", "de")
BOTH = [HOUSE, CAT]
PLAIN = b"A house.\tEin Haus.\nA cat.\tEine Katze.\n"


def made(folder, name, content):
    data = content if isinstance(content, bytes) else content.encode()
    (folder / name).write_bytes(data)
    return folder / name


def tsv(rows=ROWS):
    return "".join(f"{source}\t{target}\n" for source, target in rows)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tsv(tmp_path, end):
    text = "\ufeff" + tsv().replace("\n", end).removesuffix(end)  # no end at the end
    pairs = read_pairs(made(tmp_path, "news.en-de.tsv", text))
    assert list(pairs) == PAIRS
    assert list(pairs) == PAIRS, "a corpus can be walked through twice"
    (file,) = pairs.files
    assert (file.name, file.language) == ("news.en-de.tsv", "de")


def test_moses(tmp_path):
    for code, side in (("en", 0), ("de", 1)):
        text = "".join(row[side] + "\n" for row in ROWS)
        made(tmp_path, f"TED.de-en.{code}", text)
    made(tmp_path, "TED.de-en.xml", "<links/>")
    made(tmp_path, "TED.de-en.ids", "1\t1\n")
    for given in (tmp_path, tmp_path / "TED.de-en.en"):
        pairs = read_pairs(given)
        assert list(pairs) == PAIRS
        assert [(one.name, one.language) for one in pairs.files] == [
            ("TED.de-en.en-de", "de")
        ]
    both = [tmp_path / f"TED.de-en.{code}" for code in ("en", "de")]
    assert list(read_pairs(both)) == PAIRS, "two names of one corpus are read once"


def test_moses_with_several_languages(tmp_path):
    for code, text in (("en", "one\n"), ("de", "eins\n"), ("pt_BR", "um\n")):
        made(tmp_path, f"x.{code}", text)
    german = Pair("one", "eins", "de")
    assert list(read_pairs(tmp_path / "x.en")) == [german, Pair("one", "um", "pt_BR")]
    assert list(read_pairs(tmp_path / "x.en", language="de")) == [german]


def test_tmx(tmp_path):
    path = made(tmp_path, "memory.tmx", TMX)
    german = [
        Pair("A house.", "Ein Haus.", "de"), Pair("Tea & milk", "Tee & Milch", "de"),
    ]  # fmt: skip
    assert list(read_pairs(path)) == german
    assert list(read_pairs(path, language="fr")) == [Pair("Tea & milk", "Thé", "fr")]
    assert list(read_pairs(path, language="de-DE")) == [
        Pair("A house.", "Ein Haus.", "de-DE")
    ]


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
    assert list(read_pairs(made(tmp_path, "web.en-de.jsonl", text))) == PAIRS


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
    path = made(tmp_path, name, tsv())
    assert read_pairs(path).languages == [language]


def test_folder_pattern_and_list(tmp_path):
    for name in ("b.en-fr.tsv", "a.en-de.tsv", "c.en-de.tsv"):
        made(tmp_path, name, tsv())
    made(tmp_path, "notes.txt", "not a corpus")
    names = [file.name for file in read_pairs(tmp_path).files]
    assert names == ["a.en-de.tsv", "b.en-fr.tsv", "c.en-de.tsv"]
    pattern = read_pairs(str(tmp_path / "*.en-de.tsv"))
    assert [file.name for file in pattern.files] == ["a.en-de.tsv", "c.en-de.tsv"]
    both = read_pairs([tmp_path / "c.en-de.tsv", tmp_path])
    assert [file.name for file in both.files] == ["c.en-de.tsv", *names[:2]]
    assert both.languages == ["de", "fr"]


def test_digest_follows_the_content(tmp_path):
    path = made(tmp_path, "x.en-de.tsv", tsv())
    first = read_pairs(path).digest()
    (tmp_path / "copy").mkdir()
    copy = made(tmp_path / "copy", "x.en-de.tsv", tsv())
    assert read_pairs(copy).digest() == first
    made(tmp_path / "copy", "x.en-de.tsv", tsv(ROWS[:3]))
    assert read_pairs(copy).digest() != first
    lists = [[("a", "b", "de")], [("ab", "", "de")], [("a", "b", "fr")]]
    assert len({Pairs.from_list(one).digest() for one in lists}) == 3


@pytest.mark.parametrize(
    "name", ["wmt.de-en.tsv.gz", "ted-de-en.tsv", "x.de-en-GB.tsv"]
)
def test_tsv_with_english_second_by_its_name(tmp_path, name):
    path = made(tmp_path, name, tsv())
    fails(path, "first column must be English.*`<corpus>.en-de")
    assert list(read_pairs(path.rename(tmp_path / "y.en-de.tsv"))) == PAIRS


def read_csv(path, languages):
    for _, row in csv_rows(path):
        yield tuple(row)


CSV = 'A house.,Ein Haus.\n"Tea, please",Tee\n'
CSV_PAIRS = [Pair("A house.", "Ein Haus.", "de"), Pair("Tea, please", "Tee", "de")]


def test_a_reader_from_outside(tmp_path, monkeypatch):
    monkeypatch.setitem(READERS, "commas", Reader(suffixes=(".com",), read=read_csv))
    path = made(tmp_path, "x.en-de.com.gz", gzip.compress(CSV.encode()))
    made(tmp_path, "y.en-fr.tsv", tsv())
    assert list(read_pairs(path)) == CSV_PAIRS
    assert read_pairs(tmp_path).languages == ["de", "fr"]
    plain = made(tmp_path, "pairs.txt", CSV)
    assert list(read_pairs(plain, format="commas", language="de")) == CSV_PAIRS
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", made(tmp_path, "pairs.docx", CSV)):
        fails(place, r"Known: \.tsv, .*\.com \(each also \.gz")
    fails(
        path.rename(tmp_path / "unnamed.com.gz"),
        "`<corpus>.en-<xx>.com` or give `language`",
    )


def test_the_suffix_of_a_reader_is_no_language(tmp_path, monkeypatch):
    for code in ("en", "de", "xyz"):
        made(tmp_path, f"x.{code}", "a line\n")
    assert read_pairs(tmp_path / "x.en").languages == ["de", "xyz"]
    monkeypatch.setitem(READERS, "xyz", Reader(suffixes=(".xyz",), read=read_csv))
    assert read_pairs(tmp_path / "x.en").languages == ["de"]


def test_a_reader_may_take_the_place_of_another(tmp_path, monkeypatch):
    path = made(tmp_path, "x.en-de.csv", CSV)
    monkeypatch.setitem(READERS, "plain", Reader(suffixes=(".csv",), read=read_csv))
    assert list(read_pairs(path)) == CSV_PAIRS


def fails(path, match, **options):
    with pytest.raises(InputError, match=f"(?s){match}") as caught:
        list(read_pairs(path, **options))
    return str(caught.value)


def test_missing_file(tmp_path):
    fails(tmp_path / "x.en-de.tsv", "x.en-de.tsv` does not exist.*Give the path")
    fails(str(tmp_path / "*.tsv"), "does not exist")
    fails([], "empty list")


@pytest.mark.parametrize("data", [b"", gzip.compress(b"")], ids=["plain", "packed"])
def test_empty_file(tmp_path, data):
    fails(made(tmp_path, "x.en-de.tsv", data), "x.en-de.tsv` is empty")


@pytest.mark.parametrize("name", ["x.en-de.tsv", "x.en-de.csv"])
def test_names_of_columns_alone(tmp_path, name):
    path = made(tmp_path, name, "en\tde\n")
    fails(path, "must hold a pair.*names of columns alone")


@pytest.mark.parametrize(
    ("line", "columns"), [(b"a\tb\tc\n", 3), (b"alone\n", 1), (b"\n", 1)]
)
def test_wrong_number_of_columns(tmp_path, line, columns):
    path = made(tmp_path, "x.en-de.tsv", PLAIN + line + PLAIN)
    text = fails(path, f"x.en-de.tsv`, line 3: .*2 columns.*Received: {columns} column")
    assert repr(line.decode()[:-1]) in text
    assert "Remove the line" in text


def test_endless_line(tmp_path):
    fails(made(tmp_path, "x.en-de.tsv", PLAIN + b"a" * (1 << 21)), "line 3.*1048576")


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
    fails(path, "needs the file `x.<language>` or .* beside it")
    fails(path, "needs the file `x.fr` or `x.fr.gz`", language="fr")
    fails(
        made(tmp_path, "y.de", b"a\n"),
        "needs the file `y.en` or .* beside it",
        format="moses",
    )


def test_unknown_format_and_language(tmp_path):
    fails(made(tmp_path, "pairs.docx", PLAIN), "format is not clear.*Give `format`")
    fails(made(tmp_path, "pairs.tsv", PLAIN), "language is not clear.*give `language`")
    path = made(tmp_path, "x.en-de.tsv", PLAIN)
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


# TSV: columns of scores, numbers and names.


@pytest.mark.parametrize(
    "lines",
    [
        ("1.8566\tA house.\tEin Haus.", "1.0\tA cat.\tEine Katze."),  # mine, WikiMatrix
        ("A house.\tEin Haus.\t1.2e-1\t1", "A cat.\tEine Katze.\t.5\t2"),  # CCAligned
        ("1\tA house.\t77\tEin Haus.", "12\tA cat.\t4\tEine Katze."),  # Tatoeba
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_of_tsv(tmp_path, lines, end):
    path = made(tmp_path, "x.en-de.tsv", "".join(line + end for line in lines))
    assert list(read_pairs(path)) == BOTH


def test_columns_are_named(tmp_path):
    # An Anki deck: text, translation, attribution; and a log with an address first.
    anki = "A house.\tEin Haus.\tCC-BY 2.0\nA cat.\tEine Katze.\tCC-BY 2.0\n"
    path = made(tmp_path, "deu.tsv", anki)
    fails(path, r"line 1: .*3 are no numbers.*`--columns 1,2`", language="de")
    assert list(read_pairs(path, language="de", columns=[1, 2])) == BOTH
    turned = read_pairs(path, language="de", columns=["2", "1"])
    assert [pair.source for pair in turned] == ["Ein Haus.", "Eine Katze."]
    assert turned.digest() != read_pairs(path, language="de", columns=[1, 2]).digest()
    table = "id,text,german\n1,A house.,Ein Haus.\n2,A cat.,Eine Katze.\n"
    csv_file = made(tmp_path, "x.en-de.csv", table)
    path = made(tmp_path, "y.en-de.tsv", table.replace(",", "\t"))
    for columns in (["text", "german"], [2, 3]):
        for one in (csv_file, path):
            assert list(read_pairs(one, columns=columns)) == BOTH
    path.write_text(table.replace(",", "\t").replace("text\tgerman", "A\tB"))
    rows = list(read_pairs(path, columns=[2, 3]))
    assert rows == [Pair("A", "B", "de"), *BOTH]  # nothing says that these are names
    lines = '{"t": "A house.", "g": "Ein Haus."}\n{"t": "A cat.", "g": "Eine Katze."}\n'
    path = made(tmp_path, "x.en-de.jsonl", lines)
    assert list(read_pairs(path, columns=["t", "g"])) == BOTH
    rows = [{"t": "A house.", "g": "Ein Haus."}]
    assert list(pairs_of_rows(rows, "de", columns=["t", "g"])) == [HOUSE]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (["text", "german"], "must be among 'en', 'de', or numbers from 1.*'text'"),
        ([1, 3], "numbers from 1. Received: '3'"),
        ("12", "must be two names or numbers.*'12'"),
        ([1, 1], "must be two names or numbers"),
    ],
)
def test_columns_that_are_not_there(tmp_path, columns, match):
    path = made(tmp_path, "x.csv", "en,de\nA house.,Ein Haus.\n")
    fails(path, match, columns=columns)


def test_columns_are_for_tables(tmp_path):
    path = made(tmp_path, "x.en-de.tmx", TMX_OF.format(""))
    fails(path, "`columns` are for tables.*`tmx`", columns=[1, 2])
    path = made(tmp_path, "x.jsonl", '{"en": "a", "de": "b"}\n')
    fails(path, "must be among 'en', 'de'.*'t'.*Correct", columns=["t", "g"])


# JSON.


def test_json_of_the_hub_is_json_lines(tmp_path):
    row = '{"translation": {"en": "A house.", "de": "Ein Haus."}}\n'
    path = made(tmp_path, "train.json", row + "\n")
    assert list(read_pairs(path)) == [HOUSE]
    fails(tmp_path, "no parallel corpus.*a .json must be named")
    made(tmp_path, "x.en-fr.tsv", "One.\tUn.\n")
    assert read_pairs(tmp_path).languages == ["fr"]


@pytest.mark.parametrize("text", ['[{"en": "a"}]', '[\n{"en": "a"}\n]', '{\n"en": 1}'])
def test_a_json_value_in_many_lines(tmp_path, text):
    path = made(tmp_path, "train.json", text)
    fails(path, "line 1: .*jq -c .* train.json", language="de")


@pytest.mark.parametrize("blank", ["\n", "\n \n\n", "\r\n"])
def test_blank_lines_last(tmp_path, blank):
    row = '{"en": "A house.", "de": "Ein Haus."}\n'
    path = made(tmp_path, "x.jsonl", row + blank)
    assert list(read_pairs(path)) == [HOUSE]
    path.write_text(row + blank + row)
    fails(path, "line 2: a line must be a JSON object")
    tsv = made(tmp_path, "x.en-de.tsv", PLAIN + blank.encode())
    assert list(read_pairs(tsv)) == BOTH
    tsv.write_bytes(PLAIN + blank.encode() + PLAIN)
    fails(tsv, "line 3: a line must have 2 columns")
    made(tmp_path, "x.en", "A house.\n")
    made(tmp_path, "x.de", "Ein Haus.\n" + blank)
    assert list(read_pairs(tmp_path / "x.en")) == [HOUSE]
    made(tmp_path, "x.de", "Ein Haus.\n" + blank + "Noch eins.\n")
    fails(tmp_path / "x.en", "as many lines")


TMX_OF = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><body>{}
<tu><tuv xml:lang="en"><seg>A house.</seg></tuv>
<tuv xml:lang="de"><seg>Ein Haus.</seg></tuv></tu>
</body></tmx>"""
UNIT = (
    '<tu><tuv xml:lang="en"><seg>{}</seg></tuv>'
    '<tuv xml:lang="de"><seg>Eine Katze.</seg></tuv></tu>'
)


@pytest.mark.parametrize(
    "sign", ["&#x2;", "&#2;", "\x02", "\x1f", "&#xFFFF;", "\ufffe", "&#xD800;"]
)
@pytest.mark.parametrize("before", [0, 65_400, 65_520, 65_536])
def test_characters_that_xml_forbids(tmp_path, sign, before):
    unit = UNIT.format(f"A {sign}cat.")
    text = TMX_OF.format(f"<!--{'x' * before}-->{unit}")
    path = made(tmp_path, "memory.en-de.tmx", text)
    cat = Pair("A  cat.", "Eine Katze.", "de")  # normalised: "A cat."
    assert list(read_pairs(path)) == [cat, HOUSE]


def test_forbidden_characters_in_any_part_and_every_reference_that_is_not(tmp_path):
    unit = UNIT.format("<![CDATA[A \x02cat]]>, it &#x1F408; &#228;&#x9;&amp;#2;.")
    path = made(
        tmp_path, "x.en-de.tmx", TMX_OF.format(unit).replace("UTF-8", "latin-1")
    )
    first = next(iter(read_pairs(path)))
    assert first.source == "A  cat, it \N{CAT} ä\t&#2;."
    wide = TMX_OF.replace("UTF-8", "UTF-16").format(UNIT.format("\u0302&#228;"))
    path.write_bytes(wide.encode("utf-16"))
    assert next(iter(read_pairs(path))).source == "\u0302ä"


@pytest.mark.parametrize(
    ("inline", "text"),
    [
        ("first<ph/>second", "first second"),
        ("first<ph>&lt;br/></ph>second", "first second"),
        ("a <bpt i='1'>&lt;b></bpt>bold<ept i='1'>&lt;/b></ept>.", "a bold."),
        ("one,<it pos='begin'/> two", "one, two"),
        ("a <hi>deep <ph/>word</hi>s", "a deep words"),
        ("x<ph/><ph/>y", "x y"),
    ],
)
def test_inline_elements_keep_words_apart(tmp_path, inline, text):
    path = made(tmp_path, "x.en-de.tmx", TMX_OF.format(UNIT.format(inline)))
    assert next(iter(read_pairs(path))).source == text


@pytest.mark.parametrize(
    "text",
    [
        ",en,de\n0,A house.,Ein Haus.\n",  # an index of pandas
        '\ufeffen,de\r\n"A house.",Ein Haus.\r\n\r\n',
    ],
)
def test_csv_of_spreadsheets_and_data_frames(tmp_path, text):
    assert list(read_pairs(made(tmp_path, "x.csv", text), language="de")) == [HOUSE]


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;"])
def test_the_line_of_excel_that_names_the_separator(tmp_path, first):
    text = f"\ufeff{first}\r\nen;de;note\r\nA, b.;Ein Haus.;a,b,c,d\r\n"
    pair = Pair("A, b.", "Ein Haus.", "de")
    assert list(read_pairs(made(tmp_path, "x.csv", text))) == [pair]
    broken = text + '"a" b;c;d\r\n'
    fails(made(tmp_path, "x.csv", broken), "line 4: the file must be CSV")
    tabs = made(tmp_path, "x.en-de.tsv", b"sep=\t\n" + PLAIN)
    assert list(read_pairs(tabs)) == BOTH


@pytest.mark.parametrize(
    ("name", "mark"), [("x.csv", ","), ("x.en-de.tsv", "\t"), ("y.csv", ", ")]
)
def test_joined_files(tmp_path, name, mark):
    """`cat a.csv b.csv`, both with a byte order mark and names of columns."""
    head = f"\ufeffen{mark}de\n"
    text = f'{head}A house.{mark}"Ein Haus."\n{head}A cat.{mark}"Eine Katze."\n'
    text = text if mark != "\t" else text.replace('"', "")
    assert list(read_pairs(made(tmp_path, name, text))) == BOTH


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "en,de,de\na,b,c\n", "line 1: .*must differ.*'de' 2 times"),
        ("x.en-de.tsv", "de\ten\ten\na\tb\tc\n", "line 1: .*must differ.*'en' 2"),
        ("x.csv", "# of 2024\nen,de\na,b\n", "'# of 2024'; `.*line 2 has them. Rem"),
        ("x.csv", "Export,\n,\nen,de\na,b\n", "'Export', ''; `.*line 3 has them"),
        ("x.en-de.csv", 'en,de\na, "b, c"\n', "line 2.*Remove the blanks before q"),
        ("x.en-de.tsv", "a ||| b\n", "line 1: .*in place of `|||`: sed 's"),
        ("x.en-de.tsv", "a    b\n", "line 1: .*put a tab between"),
        ("x.json", '{"rows": [{"en": "a", "de": "b"}]}\n', "jq -c '.\"rows\"\\[\\]' x"),
        ("x.json", '{"en": {"0": "a"}, "de": {"0": "b"}}\n', "to_json.*lines=True"),
        ("x.json", '{"en": ["a"], "de": ["b"]}\n', "all rows, under 'en', 'de'"),
    ],
)
def test_tables_of_other_programs_are_refused_with_a_repair(
    tmp_path, name, text, message
):
    fails(made(tmp_path, name, text), message.replace("|||", r"\|\|\|"))


# Quotes in TSV: pandas quotes a field with a quote or a tab, `quoting=1` all of them.


@pytest.mark.parametrize("header", ["", "source\ttarget\n"])
def test_quotes_of_a_text_stay(tmp_path, header):
    lines = '"Go!"\t"Los!"\n"A" or b\tc "d"\n""\t"\n'
    rows = [('"Go!"', '"Los!"'), ('"A" or b', 'c "d"'), ('""', '"')]
    path = made(tmp_path, "x.en-de.tsv", header + lines)
    assert [pair[:2] for pair in read_pairs(path)] == rows


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("names", [("source", "target"), None])
def test_quotes_of_a_csv_writer_go(tmp_path, quoting, names):
    rows = [("A house.", 'Ein "Haus".'), ('"No", he said.', "Nein."), ("1", "x")]
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", quoting=quoting, lineterminator="\n")
    writer.writerows([names, *rows] if names else rows)
    path = made(tmp_path, "x.en-de.tsv", text.getvalue())
    assert [pair[:2] for pair in read_pairs(path)] == rows


def test_a_quoted_text_with_a_tab_or_a_line_end_is_read_as_csv(tmp_path):
    text = 'source\ttarget\n"A\thouse."\tHaus\n"A\ncat."\tKatze\n'
    path = made(tmp_path, "x.en-de.tsv", text)
    fails(path, "line 2: .*2 columns.*`--format csv`")
    rows = [("A\thouse.", "Haus"), ("A\ncat.", "Katze")]
    assert [pair[:2] for pair in read_pairs(path, format="csv")] == rows


@pytest.mark.parametrize("mark", [";", ",", "|"])
def test_another_separator_than_the_suffix_says(tmp_path, mark):
    path = made(tmp_path, "x.en-de.tsv", f"source{mark}target\nA house.{mark}Haus\n")
    fails(path, r"line 1: .*separates.*`--format csv`")
    (pair,) = read_pairs(path, format="csv")
    assert pair[:2] == ("A house.", "Haus")


def test_a_file_whose_name_tells_its_packing_wrongly(tmp_path):
    assert list(read_pairs(made(tmp_path, "x.en-de.tsv.gz", PLAIN))) == BOTH
    packed = made(tmp_path, "y.en-de.tsv", gzip.compress(PLAIN))
    assert list(read_pairs(packed)) == BOTH


# Compressed files and archives.

ZST = bytes.fromhex("28b52ffd")


def zst(data):
    zstandard = pytest.importorskip("zstandard")
    # As the command `zstd` writes: with a checksum.
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zst}


@pytest.mark.parametrize("ending", PACK)
def test_compressed(tmp_path, ending):
    packed = PACK[ending](PLAIN)
    path = made(tmp_path, f"news.en-de.tsv{ending}", packed)
    assert list(read_pairs(path)) == BOTH
    made(tmp_path, f"news.en{ending}", PACK[ending](b"A house.\n"))
    made(tmp_path, f"news.de{ending}", PACK[ending](b"Ein Haus.\n"))
    assert list(read_pairs(tmp_path / f"news.en{ending}")) == [HOUSE]
    path.write_bytes(packed + packed)  # files may be joined
    assert list(read_pairs(path)) == BOTH * 2
    long = PACK[ending](b"".join(b"%d a\t%d b\n" % (n, n * n) for n in range(9999)))
    path.write_bytes(long[: len(long) // 2])
    fails(path, r"tsv\S+` is a damaged or truncated ")
    path.write_bytes(long[:500] + b"\0" * 99 + long[599:])
    with pytest.raises(InputError):  # or of a line of nonsense, before the checksum
        list(read_pairs(path))


def test_zst_needs_an_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    path = made(tmp_path, "x.en-de.tsv.zst", ZST + b"\0" * 9)
    fails(path, r"needs .*`zstandard`.*\.\[zstd\]")


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_zip(tmp_path):
    mac = {"__MACOSX/._news.en-de.tsv": b"\0"}
    path = zipped(tmp_path / "a.zip", {"news.en-de.tsv": PLAIN} | mac)
    pairs = read_pairs(path)
    assert list(pairs) == list(pairs) == BOTH
    # As OPUS has Moses files.
    opus = {"README": b"text", "LICENSE": b"text", "TED.de-en.ids": b"1\n"}
    opus |= {"TED.de-en.en": b"A house.\nA cat.\n"}
    opus |= {"TED.de-en.de": b"Ein Haus.\nEine Katze.\n"}
    path = zipped(tmp_path / "de-en.txt.zip", opus)
    assert list(read_pairs(path)) == BOTH
    dotted = zipped(tmp_path / "dot.zip", {"./news.en-de.tsv": PLAIN})
    assert list(read_pairs(dotted)) == BOTH
    one = read_pairs(path).digest()
    zipped(path, opus | {"TED.de-en.de": b"Ein Haus.\nKatze.\n"})
    assert read_pairs(path).digest() != one
    inside = {
        "train/a.en-de.tsv.gz": gzip.compress(PLAIN),
        "train/b.csv": b"en,de\n1,2",
    }
    pairs = read_pairs(zipped(tmp_path / "two.zip", inside))
    assert list(pairs) == [*BOTH, Pair("1", "2", "de")]
    table = TextTable.build(pairs, tmp_path / "table")
    assert list(table) == list(pairs)


def test_broken_zip(tmp_path):
    rows = b"".join(b"%d a\t%d b\n" % (n, n * n) for n in range(999))
    path = zipped(tmp_path / "x.zip", {"news.en-de.tsv": rows})
    data = path.read_bytes()
    for wrong, match in (
        (data[:-30], "damaged zip archive"),
        (data[:60] + b"\0\0\0\0" + data[64:], "damaged or truncated compressed"),
    ):
        path.write_bytes(wrong)
        fails(path, match)
    fails(
        zipped(tmp_path / "y.zip", {"notes.txt": b"text"}), "holds no parallel corpus"
    )


# Character sets and spreadsheets.


def run_hint(text, folder):
    """Run the command that a message gives, and return the file that it writes."""
    start = text.lower().index("convert it: ") + len("convert it: ")
    command = text[start:]
    subprocess.run(["bash", "-c", f"set -e -o pipefail; {command}"], check=True)
    return next(folder.glob("utf8.*"))


@pytest.mark.skipif(shutil.which("iconv") is None, reason="iconv is not there")
@pytest.mark.parametrize(
    "charset", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
)
@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_the_hint_for_a_character_set_works(tmp_path, charset, ending):
    if ending and shutil.which({".gz": "gzip", ".xz": "xz"}[ending]) is None:
        pytest.skip("no such command")
    folder = tmp_path / "a folder's"
    folder.mkdir()
    sign = "\u20ac" if charset == "cp1252" else "\u00df"  # none of Latin-1
    text = f"A street.\tEine Stra{sign}e.\n".encode(charset)
    data = PACK[ending](text) if ending else text
    path = made(folder, f"x.en-de.tsv{ending}", data)
    with pytest.raises(InputError, match="must be UTF-8. Received") as caught:
        list(read_pairs(path))
    again = run_hint(str(caught.value), folder)
    wanted = Pair("A street.", f"Eine Stra{sign}e.", "de")
    assert list(read_pairs(again)) == [wanted]


def test_carriage_returns_alone(tmp_path):
    for name, text in (
        ("x.en-de.tsv", b"A.\tB.\rC.\tD.\r"),
        ("x.csv", b"en,de\rA,B\r"),
    ):
        path = made(tmp_path, name, text)
        with pytest.raises(InputError, match="carriage returns alone.*tr ") as caught:
            list(read_pairs(path, language="de"))
        command = str(caught.value).partition("Convert it: ")[2]
        subprocess.run(["bash", "-c", command], check=True)
        assert list(read_pairs(tmp_path / f"lines.{name}", language="de"))


@pytest.mark.parametrize(
    ("code", "text", "charsets"),
    [
        ("tr", "Kapı açık değil, ışık da sönük.", ["iso-8859-9"]),
        ("ru", "Собака бежит по улице.", ["windows-1251", "koi8-r"]),
        ("uk", "Її кіт спить на стільці.", ["windows-1251", "koi8-u"]),
        ("zh", "我们的猫在那里睡觉。", ["gb18030"]),
        ("zh_TW", "這個學生會說中國話嗎？", ["big5"]),
        ("ja", "犬が庭で遊んでいます。", ["shift_jis", "euc-jp"]),
        ("ko", "고양이가 의자에서 자고 있다.", ["euc-kr"]),
        ("pl", "Pies śpi, a kot źle się bawi.", ["windows-1250", "iso-8859-2"]),
        ("cs", "Žlutý kůň úpěl ďábelské ódy.", ["windows-1250", "iso-8859-2"]),
        ("ar", "القطة نائمة على الكرسي.", ["windows-1256", "iso-8859-6"]),
        ("el", "Η γάτα κοιμάται στην καρέκλα.", ["windows-1253", "iso-8859-7"]),
        ("he", "החתול ישן על הכיסא.", ["windows-1255"]),
        ("th", "แมวนอนบนเก้าอี้", ["tis-620"]),
        ("de", "Die Tür ist größer.", ["latin-1"]),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_the_encoding_of_a_language_is_guessed(tmp_path, code, text, charsets, known):
    for charset in charsets:
        data = f"The cat sleeps.\t{text}\n".encode(charset)
        path = made(tmp_path, "x.tsv", data)
        with pytest.raises(InputError, match="iconv -f ") as caught:
            _ = list(read_pairs(path, language=code)) if known else read_texts(path)
        advised = re.search("iconv -f (\\S+)", str(caught.value))[1]
        assert data.decode(advised) == data.decode(charset)


def test_a_line_that_is_broken_in_a_file_in_utf8(tmp_path):
    data = "A.\tÄ.\n".encode() + b"B.\t\xff.\n"
    fails(
        made(tmp_path, "x.en-de.tsv", data), "line 2: .*Other lines are UTF-8: correct"
    )


def test_excel_is_named(tmp_path):
    data = io.BytesIO()
    zipped(data, {"xl/workbook.xml": b"<workbook/>", "[Content_Types].xml": b""})
    for name in ("pairs.xlsx", "pairs.ods"):
        path = made(tmp_path, name, data.getvalue())
        fails(path, "format is not clear.*Save the sheet as CSV", language="de")
    for content in (data.getvalue(), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0"):
        path = made(tmp_path, "pairs.csv", content)
        fails(path, "must be a text file.*Excel workbook", language="de")
