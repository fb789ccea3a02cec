"""Files as other tools write them: read exactly, or refused with what to do."""

import bz2
import csv
import gzip
import io
import lzma
import re
import shutil
import subprocess
import zipfile

import pytest

from keras_msd.checks import InputError
from keras_msd.cli.search import write_pairs
from keras_msd.data import Pair, TextTable, read_pairs
from keras_msd.data.readers.lines import read_texts
from keras_msd.data.readers.tables import pairs_of_rows

HOUSE = Pair("A house.", "Ein Haus.", "de")
CAT = Pair("A cat.", "Eine Katze.", "de")
BOTH = [HOUSE, CAT]
PLAIN = b"A house.\tEin Haus.\nA cat.\tEine Katze.\n"


def made(tmp_path, name, content):
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(data)
    return tmp_path / name


# TSV: columns of scores, numbers and names.


@pytest.mark.parametrize(
    "lines",
    [
        ("1.8566\tA house.\tEin Haus.", "1.0\tA cat.\tEine Katze."),  # mine, WikiMatrix
        ("A house.\tEin Haus.\t1.2e-1", "A cat.\tEine Katze.\t.5"),  # NLLB, Bicleaner
        ("1\tA house.\t77\tEin Haus.", "12\tA cat.\t4\tEine Katze."),  # Tatoeba
        (
            "A house.\tEin Haus.\t1.1\t0.9\t2",
            "A cat.\tEine Katze.\t1\t1\t1",
        ),  # CCAligned
        ("source\ttarget", "A house.\tEin Haus.", "A cat.\tEine Katze."),
        ("score\tde\ten", "1.0\tEin Haus.\tA house.", "2\tEine Katze.\tA cat."),
        ("english\tnon_english", "A house.\tEin Haus.", "A cat.\tEine Katze."),
        ("A house.\tEin Haus.", "A cat.\tEine Katze.", "", " "),  # blank lines last
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_of_tsv(tmp_path, lines, end):
    path = made(tmp_path, "x.en-de.tsv", "".join(line + end for line in lines))
    assert list(read_pairs(path)) == BOTH


@pytest.mark.parametrize("name", ["mined.en-de.tsv", "mined.en-de.tsv.gz"])
def test_what_mine_writes_is_read(tmp_path, name):
    rows = [
        {"score": score, "source": pair.source, "target": pair.target}
        for score, pair in zip((1.86, 0.9), BOTH, strict=True)
    ]
    write_pairs(tmp_path / name, rows)
    assert list(read_pairs(tmp_path / name)) == BOTH


def test_columns_are_named(tmp_path):
    # An Anki deck: text, translation, attribution; and a log with an address first.
    anki = "A house.\tEin Haus.\tCC-BY 2.0\nA cat.\tEine Katze.\tCC-BY 2.0\n"
    path = made(tmp_path, "deu.tsv", anki)
    with pytest.raises(
        InputError, match=r"line 1: .*3 are no numbers.*`--columns 1,2`"
    ):
        list(read_pairs(path, language="de"))
    assert list(read_pairs(path, language="de", columns=[1, 2])) == BOTH
    turned = read_pairs(path, language="de", columns=["2", "1"])
    assert [pair.source for pair in turned] == ["Ein Haus.", "Eine Katze."]
    assert turned.digest() != read_pairs(path, language="de", columns=[1, 2]).digest()
    table = "id,text,german\n1,A house.,Ein Haus.\n2,A cat.,Eine Katze.\n"
    path = made(tmp_path, "x.en-de.csv", table)
    for columns in (["text", "german"], [2, 3]):
        assert list(read_pairs(path, columns=columns)) == BOTH
    path = made(tmp_path, "y.en-de.tsv", table.replace(",", "\t"))
    for columns in (["text", "german"], [2, 3]):
        assert list(read_pairs(path, columns=columns)) == BOTH
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
    with pytest.raises(InputError, match=match):
        list(read_pairs(path, columns=columns))


def test_columns_are_for_tables(tmp_path):
    path = made(tmp_path, "x.en-de.tmx", TMX.format(""))
    with pytest.raises(InputError, match="`columns` are for tables.*`tmx`"):
        read_pairs(path, columns=[1, 2])
    with pytest.raises(InputError, match="must be among 'en', 'de'.*'t'.*Correct"):
        rows = made(tmp_path, "x.jsonl", '{"en": "a", "de": "b"}\n')
        list(read_pairs(rows, columns=["t", "g"]))


# JSON.


def test_names_of_the_hub(tmp_path):
    row = '{"english": "A house.", "non_english": "Ein Haus."}\n'
    path = made(tmp_path, "talks.en-de.jsonl", row)
    assert list(read_pairs(path)) == [HOUSE]
    with pytest.raises(InputError, match="the language is not clear.*`--language`"):
        read_pairs(made(tmp_path, "talks.jsonl", row))
    table = made(tmp_path, "x.en-de.csv", "english,non_english\nA house.,Ein Haus.\n")
    assert list(read_pairs(table)) == [HOUSE]
    rows = [{"english": "A house.", "non_english": "Ein Haus."}]
    assert list(pairs_of_rows(rows, "de")) == [HOUSE]


def test_json_of_the_hub_is_json_lines(tmp_path):
    row = '{"translation": {"en": "A house.", "de": "Ein Haus."}}\n'
    path = made(tmp_path, "train.json", row + "\n")
    assert list(read_pairs(path)) == [HOUSE]
    with pytest.raises(InputError, match="no parallel corpus.*a .json must be named"):
        read_pairs(tmp_path)
    made(tmp_path, "x.en-fr.tsv", "One.\tUn.\n")
    assert read_pairs(tmp_path).languages == ["fr"]


@pytest.mark.parametrize("text", ['[{"en": "a"}]', '[\n{"en": "a"}\n]', '{\n"en": 1}'])
def test_a_json_value_in_many_lines(tmp_path, text):
    path = made(tmp_path, "train.json", text)
    with pytest.raises(InputError, match=r"line 1: .*jq -c .* train.json"):
        read_pairs(path, language="de")
        list(read_pairs(path, language="de"))


@pytest.mark.parametrize("blank", ["\n", "\n \n\n", "\r\n"])
def test_blank_lines_last(tmp_path, blank):
    row = '{"en": "A house.", "de": "Ein Haus."}\n'
    path = made(tmp_path, "x.jsonl", row + blank)
    assert list(read_pairs(path)) == [HOUSE]
    path.write_text(row + blank + row)
    with pytest.raises(InputError, match="line 2: a line must be a JSON object"):
        list(read_pairs(path))
    tsv = made(tmp_path, "x.en-de.tsv", PLAIN + blank.encode())
    assert list(read_pairs(tsv)) == BOTH
    tsv.write_bytes(PLAIN + blank.encode() + PLAIN)
    with pytest.raises(InputError, match="line 3: a line must have 2 columns"):
        list(read_pairs(tsv))
    made(tmp_path, "x.en", "A house.\n")
    made(tmp_path, "x.de", "Ein Haus.\n" + blank)
    assert list(read_pairs(tmp_path / "x.en")) == [HOUSE]
    made(tmp_path, "x.de", "Ein Haus.\n" + blank + "Noch eins.\n")
    with pytest.raises(InputError, match="as many lines"):
        list(read_pairs(tmp_path / "x.en"))


# Moses.


def test_moses_by_the_languages_given(tmp_path):
    made(tmp_path, "news.deu", "Ein Haus.\n")
    made(tmp_path, "news.fra", "Une maison.\n")
    pair = Pair("Ein Haus.", "Une maison.", "fra", "deu")
    given = {"language": "fra", "source_language": "deu"}
    names = ["news.deu", "news.fra"]
    for paths in ("news.deu", "news.fra", names, "."):
        places = [tmp_path / name for name in paths] if paths is names else [paths]
        found = read_pairs([tmp_path / place for place in places], **given)
        assert list(found) == [pair]
    with pytest.raises(InputError, match="the format is not clear"):
        read_pairs(tmp_path / "news.deu", language="fra")
    made(tmp_path, "news.eng", "A house.\n")
    english = read_pairs(tmp_path / "news.deu")
    assert list(english) == [Pair("A house.", "Ein Haus.", "deu")]


# TMX.

TMX = """<?xml version="1.0" encoding="UTF-8"?>
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
    text = TMX.format(f"<!--{'x' * before}-->{unit}")
    path = made(tmp_path, "memory.en-de.tmx", text)
    cat = Pair("A  cat.", "Eine Katze.", "de")  # normalised: "A cat."
    assert list(read_pairs(path)) == [cat, HOUSE]


def test_forbidden_characters_in_any_part_and_every_reference_that_is_not(tmp_path):
    unit = UNIT.format("<![CDATA[A \x02cat]]>, it &#x1F408; &#228;&#x9;&amp;#2;.")
    path = made(tmp_path, "x.en-de.tmx", TMX.format(unit).replace("UTF-8", "latin-1"))
    first = next(iter(read_pairs(path)))
    assert first.source == "A  cat, it \N{CAT} ä\t&#2;."
    wide = TMX.replace("UTF-8", "UTF-16").format(UNIT.format("\u0302&#228;"))
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
    path = made(tmp_path, "x.en-de.tmx", TMX.format(UNIT.format(inline)))
    assert next(iter(read_pairs(path))).source == text


@pytest.mark.parametrize(
    "text",
    [
        "en;de\nA house.;Ein Haus.\n",
        ",en,de\n0,A house.,Ein Haus.\n",  # an index of pandas
        '\ufeffen,de\r\n"A house.",Ein Haus.\r\n\r\n',
        "id;source;target;date\n1;A house.;Ein Haus.;2024-01-01\n",
    ],
)
def test_csv_of_spreadsheets_and_data_frames(tmp_path, text):
    assert list(read_pairs(made(tmp_path, "x.csv", text), language="de")) == [HOUSE]


def test_what_tatoeba_exports(tmp_path):
    """Byte order mark, numbers of sentences, quotes that nobody closes."""
    text = '\ufeff1\t"A house.\t77\tEin Haus."\n2\tA cat.\t78\tEine Katze.\n'
    pairs = read_pairs(made(tmp_path, "pairs.tsv", text), language="de")
    assert list(pairs) == [Pair('"A house.', 'Ein Haus."', "de"), CAT]


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;"])
def test_the_line_of_excel_that_names_the_separator(tmp_path, first):
    text = f"\ufeff{first}\r\nen;de;note\r\nA, b.;Ein Haus.;a,b,c,d\r\n"
    pair = Pair("A, b.", "Ein Haus.", "de")
    assert list(read_pairs(made(tmp_path, "x.csv", text))) == [pair]
    broken = text + '"a" b;c;d\r\n'
    with pytest.raises(InputError, match="line 4: the file must be CSV"):
        list(read_pairs(made(tmp_path, "x.csv", broken)))
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
    with pytest.raises(InputError, match=message.replace("|||", r"\|\|\|")):
        list(read_pairs(made(tmp_path, name, text)))


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
    with pytest.raises(InputError, match="line 2: .*2 columns.*`--format csv`"):
        list(read_pairs(path))
    rows = [("A\thouse.", "Haus"), ("A\ncat.", "Katze")]
    assert [pair[:2] for pair in read_pairs(path, format="csv")] == rows


@pytest.mark.parametrize("mark", [";", ",", "|"])
def test_another_separator_than_the_suffix_says(tmp_path, mark):
    path = made(tmp_path, "x.en-de.tsv", f"source{mark}target\nA house.{mark}Haus\n")
    with pytest.raises(InputError, match=r"line 1: .*separates.*`--format csv`"):
        list(read_pairs(path))
    (pair,) = read_pairs(path, format="csv")
    assert pair[:2] == ("A house.", "Haus")


def test_a_file_whose_name_tells_its_packing_wrongly(tmp_path):
    assert list(read_pairs(made(tmp_path, "x.en-de.tsv.gz", PLAIN))) == BOTH
    packed = made(tmp_path, "y.en-de.tsv", gzip.compress(PLAIN))
    assert list(read_pairs(packed)) == BOTH


def test_an_entity_of_html(tmp_path):
    path = made(tmp_path, "x.en-de.tmx", TMX.format(UNIT.format("A&nbsp;cat.")))
    with pytest.raises(InputError, match="line 2: .*undefined entity"):
        list(read_pairs(path))


@pytest.mark.parametrize("name", ["memory.sdltm", "x.xml", "x.docx", "x.yml"])
def test_other_formats_are_not_guessed(tmp_path, name):
    with pytest.raises(InputError, match="the format is not clear from the name"):
        read_pairs(made(tmp_path, name, PLAIN), language="de")


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
    with pytest.raises(InputError, match=r"tsv\S+` is a damaged or truncated "):
        list(read_pairs(path))
    path.write_bytes(long[:500] + b"\0" * 99 + long[599:])
    with pytest.raises(InputError):  # or of a line of nonsense, before the checksum
        list(read_pairs(path))


def test_zst_needs_an_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    path = made(tmp_path, "x.en-de.tsv.zst", ZST + b"\0" * 9)
    with pytest.raises(InputError, match=r"needs .*`zstandard`.*\.\[zstd\]"):
        list(read_pairs(path))


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
        with pytest.raises(InputError, match=match):
            list(read_pairs(path))
    with pytest.raises(InputError, match="holds no parallel corpus"):
        read_pairs(zipped(tmp_path / "y.zip", {"notes.txt": b"text"}))


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


def test_an_open_quote_in_csv_is_named(tmp_path):
    text = 'source,target\n"Go" he said.,Geh.\n'
    with pytest.raises(
        InputError, match="line 2: .* begins with a quote must end with"
    ):
        list(read_pairs(made(tmp_path, "x.csv", text), language="de"))


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
    with pytest.raises(InputError, match="line 2: .*Other lines are UTF-8: correct"):
        list(read_pairs(made(tmp_path, "x.en-de.tsv", data)))


def test_excel_is_named(tmp_path):
    data = io.BytesIO()
    zipped(data, {"xl/workbook.xml": b"<workbook/>", "[Content_Types].xml": b""})
    with pytest.raises(InputError, match="format is not clear.*Known: .*.csv"):
        read_pairs(made(tmp_path, "pairs.xlsx", data.getvalue()), language="de")
    with pytest.raises(InputError, match="format is not clear.*Save the sheet as CSV"):
        read_pairs(made(tmp_path, "pairs.ods", data.getvalue()), language="de")
    for content in (data.getvalue(), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0"):
        path = made(tmp_path, "pairs.csv", content)
        with pytest.raises(InputError, match="must be a text file.*Excel workbook"):
            list(read_pairs(path, language="de"))


def test_messages_name_the_option(tmp_path):
    with pytest.raises(InputError, match=r"Give `format` \(`--format`\), one of tsv"):
        read_pairs(made(tmp_path, "pairs.txt", PLAIN))
