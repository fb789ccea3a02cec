"""Names of columns are found whatever their spelling, and never read as a pair."""

import pytest

from keras_msd import InputError
from keras_msd.data import Pair, read_pairs
from keras_msd.data.languages import code_of, languages

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
        ("id;en;de", "de"),
        ("en;id", "id"),
        ("English;Brazilian Portuguese", "pt"),
        ("en;ceb", "ceb"),
        ("English;zh-Hant", "zh-Hant"),
    ],
)
def test_the_language_of_a_column(tmp_path, header, code):
    row = ("1",) * header.count("id;en") + ("a", "b")
    path = table(tmp_path, header.replace(";", "\t"), [row], "x.csv")
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
        ("no", "nein"),
        ("in", "in"),
        ("source", "Quelle"),
        ("text", "Text"),
        ("1", "1"),
        ("document", "Dokument"),
        ("response", "Antwort"),
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
