"""Rows with named columns: CSV, parquet, rows in memory; names in any spelling."""

import gzip

import pytest

import keras_msd as msd
from keras_msd import InputError
from keras_msd.data import Pair, read_pairs
from keras_msd.data.languages import code_of, languages
from keras_msd.data.readers import tables

ROWS = [("A house.", "Ein Haus."), ("Tea, please.", 'Tee, "bitte".')]
HOUSE, CAT = ("A house.", "Ev."), ("A cat.", "Kedi.")
HEADERS = [
    *("source\ttarget", "Source\tTarget", "SRC\tTGT", "src\ttrg"),
    *("English\tTurkish", "english\tturkish", "ENGLISH\tTÜRKÇE", "English\tTurkish "),
    *("en\ttr", "EN\tTR", "eng\ttur", "en-US\ttr-TR", "en_XX\ttr_TR"),
    *("English (US)\tTurkish", "English text\tTurkish text", "en_text\ttr_text"),
    *("sourceText\ttargetText", "source_sentence\ttarget_sentence"),
    *("text\ttranslation", "English\tTranslation", "Original\tTranslation"),
    *("English source\tTurkish target", "English sentence\tTurkish translation"),
    *("english\tnon_english", "# source\ttarget", '"source"\t"target"'),
]


def written(folder, text, name="own.csv"):
    path = folder / name
    opened = gzip.open if name.endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


def rows_of(pairs):
    return [pair[:2] for pair in pairs]


@pytest.mark.parametrize("name", ["own.csv", "own.csv.gz"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_the_first_row_names_the_languages(tmp_path, name, mark):
    lines = [["id", "en", "de"], ["1", *ROWS[0]], [], ["2", "Tea", '"T""e"']]
    text = "\n".join(mark.join(line) for line in lines) + "\n"
    pairs = read_pairs(written(tmp_path, text, name))
    assert pairs.languages == ["de"]
    assert rows_of(pairs) == [ROWS[0], ("Tea", 'T"e')]


def test_a_bad_row_is_named(tmp_path):
    path = written(tmp_path, "en,de\nA,B\nA,B,C\n")
    with pytest.raises(InputError, match="own.csv`, line 3: a row must have 2 fields"):
        list(read_pairs(path))
    path = written(tmp_path, "english,notes\nA,B\n")
    with pytest.raises(InputError, match="line 2: a row must .*'english', 'notes'"):
        list(read_pairs(path, language="de"))


def test_parquet_needs_an_extra(tmp_path, monkeypatch):
    (tmp_path / "own.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"\.\[parquet\]"):
        read_pairs(tmp_path / "own.parquet")


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "own.parquet"
    for table in (
        {"en": [a for a, _ in ROWS], "de": [b for _, b in ROWS]},
        {"translation": [{"en": a, "de": b} for a, b in ROWS]},
    ):
        parquet.write_table(arrow.table(table), path)
        assert rows_of(read_pairs(path)) == ROWS
    path.write_bytes(b"no table")
    with pytest.raises(InputError, match="no parquet file"):
        read_pairs(path)


class Frame:
    """What is used of a pandas data frame."""

    def itertuples(self):
        raise AssertionError

    def to_dict(self, kind):
        assert kind == "records"
        return [{"en": source, "tr": target} for source, target in ROWS]


def test_rows_in_memory():
    rows = tables.pairs_of_rows
    assert rows(Frame()).languages == ["tr"]
    assert rows_of(rows(Frame())) == ROWS
    assert rows(ROWS).languages == ["und"]
    assert rows(map(list, ROWS), "de").languages == ["de"]
    hugging_face = ({"id": 1, "translation": {"en": a, "sv": b}} for a, b in ROWS)
    assert list(rows(hugging_face)) == [msd.data.Pair(*row, "sv") for row in ROWS]
    assert rows([("Haus", "maison", "fr", "de")]).languages == ["de-fr"]
    named = [{"source": a, "target": b} for a, b in ROWS]
    assert rows(named, "fr", "de").languages == ["de-fr"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"train": ROWS}, r"mapping with the keys 'train'.*pairs\[\"train\"\]"),
        ([*ROWS, ("A",)], "row 3: a row must be"),
        ([*ROWS, ("A", None)], "row 3: a row must be"),
        ([{"en": "A", "de": float("nan")}], "row 1: .*'de': nan.*remove what has no"),
        ([], "must hold a pair"),
    ],
)
def test_rows_that_are_none(rows, message):
    with pytest.raises(InputError, match=message):
        tables.pairs_of_rows(rows)


@pytest.mark.parametrize("text", ["\n", "\n\n\n", "\r\n"])
def test_empty_rows_alone_are_no_table(tmp_path, text):
    path = written(tmp_path, text)
    for language in (None, "de"):
        with pytest.raises(InputError, match="own.csv` must have a row with names"):
            list(read_pairs(path, language=language))


def table(folder, header, rows, name):
    lines = [header, *("\t".join(row) for row in rows)]
    text = "".join(line + "\n" for line in lines)
    if name.endswith(".csv"):
        text = text.replace("\t", ";")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("name", ["x.en-tr.tsv", "x.en-tr.csv"])
def test_a_header_is_no_pair(tmp_path, header, name):
    pairs = [Pair(*HOUSE, "tr"), Pair(*CAT, "tr")]
    assert list(read_pairs(table(tmp_path, header, [HOUSE, CAT], name))) == pairs
    turned = "\t".join(reversed(header.split("\t")))
    rows = [row[::-1] for row in (HOUSE, CAT)]
    assert list(read_pairs(table(tmp_path, turned, rows, name))) == pairs
    more = f"id\t{header}\tscore"
    rows = [("1", *HOUSE, "0.5"), ("2", *CAT, "1")]
    assert list(read_pairs(table(tmp_path, more, rows, name))) == pairs


@pytest.mark.parametrize("name", ["x.tr-en.tsv", "x.en-tr.tsv"])
def test_a_header_tells_which_column_is_english(tmp_path, name):
    path = table(tmp_path, "Turkish\tEnglish", [HOUSE[::-1]], name)
    assert list(read_pairs(path)) == [Pair(*HOUSE, "tr")]


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("English;Turkish", "tr"),
        ("en;tr", "tr"),
        ("en;id", "id"),
        ("English;Brazilian Portuguese", "pt"),
        ("en;ceb", "ceb"),
        ("English;zh-Hant", "zh-Hant"),
    ],
)
def test_the_language_of_a_column(tmp_path, header, code):
    path = table(tmp_path, header.replace(";", "\t"), [("a", "b")], "x.csv")
    assert list(read_pairs(path)) == [Pair("a", "b", code)]


@pytest.mark.parametrize(
    "header",
    [
        *("French\tGerman", "en\tfr", "sentence1\tsentence2", "English\tFrench"),
        *("de\teng", "anchor\tpositive", "Question\tAnswer", "0\t1", "col1\tcol2"),
        *("Language 1\tLanguage 2", "msgid\tmsgstr"),
    ],
)
def test_a_header_of_other_columns_is_refused(tmp_path, header):
    path = table(tmp_path, header, [HOUSE], "x.en-tr.tsv")
    with pytest.raises(InputError, match=f"line 1: .*{header.split()[0]}.*--columns"):
        list(read_pairs(path))
    assert list(read_pairs(path, columns=[1, 2])) == [Pair(*HOUSE, "tr")]


@pytest.mark.parametrize(
    "first",
    [
        ("German", "Deutsch"),
        ("it", "es"),
        ("in", "in"),
        ("source", "Quelle"),
        ("text", "Text"),
        ("1", "1"),
        ("English", "Englisch"),
        ("He is here.", "Er ist da."),
    ],
)
def test_words_that_are_a_pair(tmp_path, first):
    path = table(tmp_path, "\t".join(first), [], "x.en-de.tsv")
    assert list(read_pairs(path)) == [Pair(*first, "de")]


def test_names_of_columns_are_given_in_any_case(tmp_path):
    path = table(tmp_path, "Text\tNote", [HOUSE], "x.en-tr.csv")
    assert list(read_pairs(path, columns=["TEXT", "note"])) == [Pair(*HOUSE, "tr")]


def test_codes_are_those_of_iso_639():
    assert (code_of("ger"), code_of("deu"), code_of("de-AT")) == ("de", "de", "de")
    assert languages()["yo"][0] == "Yoruba" and code_of("xx") is None
