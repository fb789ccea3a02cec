"""Normalisation and filters; pairs of any two languages."""

import json
import unicodedata
from dataclasses import replace

import pytest
from tiny_data import HashGuide, WordEncoder, WordTokenizer

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.data import (
    GuideStore,
    Pair,
    PairBatches,
    Pairs,
    PairTable,
    TextTable,
    read_pairs,
)
from keras_msd.data.pair import (
    Cleaning,
    language_pair,
    languages_of_pairs,
    normalize,
    pair_code,
)
from keras_msd.data.readers import LanguageTexts

ROWS = [("Ein Haus.", "Une maison."), ("Tee, bitte", "Du thé")]
PAIRS = [Pair(*row, "fr", "de") for row in ROWS]
TMX = """<tmx><body><tu><tuv xml:lang="en"><seg>A house.</seg></tuv>
<tuv xml:lang="fr-CA"><seg>Une maison.</seg></tuv>
<tuv xml:lang="de-AT"><seg>Ein Haus.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Tee, bitte</seg></tuv>
<tuv xml:lang="fr"><seg>Du thé</seg></tuv></tu></body></tmx>"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  two\t\twords \n", "two words"),
        ("e\u0301te\u0301", "été"),
        ("a\u00a0b\u3000c\u2028d", "a b c d"),
        ("x\x00y\x7fz\x9f", "x y z"),
        ("\ufeffso\u00adft zero\u200bwidth\u2060", "soft zerowidth"),
        ("👩\u200d🚀 می\u200cخواهم", "👩\u200d🚀 می\u200cخواهم"),
        ("e\u200b\u0301", "é"),
        ("\x01 \x02", ""),
    ],
)
def test_normalize(text, expected):
    assert normalize(text) == expected
    assert normalize(expected) == expected
    assert unicodedata.is_normalized("NFC", normalize(text))


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("", "Haus", "empty"),
        ("house", "", "empty"),
        ("ab", "Haus", "short"),
        ("abc", "abc", None),
        ("x" * 50, "y" * 50, None),
        ("x" * 51, "y" * 50, "long"),
        ("a a a a a", "y" * 9, None),
        ("y" * 11, "a a a a a a", "long"),
        ("x" * 30, "y" * 10, None),
        ("x" * 31, "y" * 10, "ratio"),
        ("y" * 10, "x" * 31, "ratio"),
        ("x" * 19, "y" * 4, None),  # too short for the ratio to mean something
        ("x" * 33, "中" * 11, None),  # 33 bytes each
        ("x" * 10, "中" * 11, "ratio"),
    ],
)
def test_reasons(source, target, reason):
    rules = Cleaning(min_chars=3, max_chars=50, max_words=5, max_ratio=3, ratio_from=20)
    assert rules.reason(source, target) == reason


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"min_chars": 0}, "min_chars"),
        ({"max_words": 0}, "max_words"),
        ({"max_ratio": 0.5}, "max_ratio"),
        ({"max_chars": 5, "min_chars": 6}, "max_chars"),
    ],
)
def test_wrong_options(options, name):
    with pytest.raises(InputError, match=name):
        Cleaning(**options)


def tsv(rows=ROWS):
    return "".join("\t".join(row) + "\n" for row in rows)


def jsonl(first, second, rows=ROWS):
    return "".join(json.dumps({first: a, second: b, "en": "x"}) + "\n" for a, b in rows)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("news.de-fr.tsv", tsv()),
        ("news.de-fr.tmx", TMX),
        ("news.de-fr.jsonl", jsonl("de", "fr")),
        ("news.de-fr.jsonl", jsonl("source", "target")),
    ],
)
def test_names_and_arguments_say_both_languages(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    pairs = read_pairs(path)
    assert list(pairs) == PAIRS and pairs.languages == ["de-fr"]
    plain = path.rename(tmp_path / f"plain{path.suffix}")
    assert list(read_pairs(plain, language="fr", source_language="de")) == PAIRS


def test_two_files_without_english(tmp_path):
    for code, side in (("de", 0), ("fr", 1)):
        text = "".join(row[side] + "\n" for row in ROWS)
        for stem in ("TED.de-fr", "plain"):
            (tmp_path / f"{stem}.{code}").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="format is not clear"):
        read_pairs(tmp_path / "plain.de")
    given = {"format": "moses", "language": "fr", "source_language": "de"}
    for pairs in (
        read_pairs(tmp_path),
        read_pairs(tmp_path / "TED.de-fr.fr"),
        read_pairs(tmp_path / "plain.de", **given),
    ):
        assert list(pairs) == PAIRS
    assert [one.name for one in read_pairs(tmp_path).files] == ["TED.de-fr.de-fr"]
    (tmp_path / "TED.de-fr.en").write_text("A house.\nTea\n")  # English goes first
    english = read_pairs(tmp_path / "TED.de-fr.fr")
    assert next(iter(english)) == Pair("A house.", "Une maison.", "fr")
    (tmp_path / "TED.de-fr.en").unlink()
    (tmp_path / "TED.de-fr.fr").unlink()
    with pytest.raises(InputError, match="needs the file `TED.de-fr.fr` or"):
        read_pairs(tmp_path)
    (tmp_path / "TED.de-fr.de").rename(tmp_path / "TED.de-fr.fr")
    with pytest.raises(InputError, match="needs the file `TED.de-fr.de`"):
        read_pairs(tmp_path)


def test_a_name_is_no_pair_by_chance(tmp_path):
    (tmp_path / "wmt-de.tsv").write_text(tsv())
    assert read_pairs(tmp_path / "wmt-de.tsv", language="de").languages == ["de"]
    path = tmp_path / "x.de-fr.tsv"
    path.write_text(tsv())
    for given in ({"language": "it"}, {"source_language": "en"}):
        with pytest.raises(InputError, match=f"`{[*given][0]}` contradicts.*Leave"):
            read_pairs(path, **given)
    assert read_pairs(path, language="fr").languages == ["de-fr"]
    path.write_text("one column\n")
    with pytest.raises(InputError, match="line 1: .* 2 columns, `de` TAB `fr`"):
        list(read_pairs(path))


def test_codes_of_pairs():
    codes = {
        "fr": ("en", "fr"),
        "zh-Hant": ("en", "zh-Hant"),
        "de-fr": ("de", "fr"),
        "de-zh-Hant": ("de", "zh-Hant"),
    }
    for code, pair in codes.items():
        assert language_pair(code) == pair and pair_code(*pair) == code
    assert language_pair("en-de") == language_pair("de-en") == ("en", "de")
    assert languages_of_pairs(["fr", "de-fr", "it"]) == ["en", "fr", "de", "it"]


def test_lists_in_memory():
    pairs = Pairs.from_list([("a", "b", "fr"), *PAIRS, ("c", "d", "fr", "en")])
    assert pairs.languages == ["fr", "de-fr"]
    assert list(pairs) == [Pair("a", "b", "fr"), Pair("c", "d", "fr"), *PAIRS]
    assert [one.name for one in pairs.files] == ["memory.en-fr", "memory.de-fr"]
    with pytest.raises(InputError, match="a fourth one, the source's language.*1"):
        Pairs.from_list([("a", "b", "fr"), ("a", "b", "c", "d", "e")])


def test_tables_tell_languages_apart(tmp_path):
    same = [("Taxi", "Taxi", "fr"), ("Taxi", "Taxi", "fr", "de")] * 2
    build = TextTable.build
    table = build(Pairs.from_list(same), tmp_path / "t")
    assert list(table) == [Pair(*same[0]), Pair(*same[1])]
    assert [one.source_language for one in table.files] == ["en", "de"]
    assert [one["source_language"] for one in table.counts] == ["en", "de"]
    assert [one["duplicate"] for one in table.counts] == [1, 1]
    assert list(table.pairs()) == list(TextTable.open(tmp_path / "t")) == list(table)
    with pytest.raises(InputError, match="a table of other files, another"):
        build(Pairs.from_list(same[:1]), tmp_path / "t")
    files = Pairs.from_list(same).files
    assert len({replace(file, name="x").digest() for file in files}) == 2


def test_sentences_of_a_language_stand_on_either_side(tmp_path):
    folder = tmp_path / "parallel/train"
    folder.mkdir(parents=True)
    (folder / "x.de-fr.tsv").write_text(tsv([("Haus", "maison")]))
    (folder / "x.en-de.tsv").write_text(tsv([("tea", "Tee")]))
    texts = {
        "de": ["Haus", "Tee"],
        "fr": ["maison"],
        "en": ["tea"],
        "en,fr": ["maison"],
        "de,fr": ["Haus", "maison", "Tee"],
    }
    for codes, wanted in texts.items():
        assert list(LanguageTexts(tmp_path, codes.split(","))) == wanted
    for codes, words in {
        ("it",): "'en', 'de', 'fr'. Received: languages='it'",
        ("dee",): "Received: languages='dee'. Did you mean `de`",
        (): "must name a language",
    }.items():
        with pytest.raises(InputError, match=words):
            LanguageTexts(tmp_path, codes)
    with pytest.raises(InputError, match="does not exist"):
        LanguageTexts(tmp_path / "no", ["de"])


MIXED = [
    ("a house", "Haus", "de"), ("tea", "Tee", "de"),
    ("Haus", "maison", "fr", "de"), ("Tee", "thé", "fr", "de"),
]  # fmt: skip


def guided(tmp_path, languages, side, pairs=MIXED):
    table = Pairs.from_list(pairs)
    folder = tmp_path / f"t{len(pairs)}"
    table = PairTable.build(table, WordTokenizer(), folder, max_length=32)
    guide = msd.load_teacher(HashGuide().encode, name="hash", languages=languages)
    store = GuideStore(guide, tmp_path / "store")
    return PairBatches(table, WordEncoder(), {"g": (store, side)}, len(pairs))


@pytest.mark.parametrize(
    ("side", "pair", "language"),
    [("source", "de-fr", "de"), ("target", "de", "de")],
)
def test_a_guide_that_reads_english_alone_refuses_the_rest(
    tmp_path, side, pair, language
):
    words = f"`hash` reads en. Received: pairs `{pair}` in .*{side} texts, in `"
    with pytest.raises(InputError, match=f"{words}{language}`. Take a multilingual"):
        guided(tmp_path, ["en"], side)
    assert guided(tmp_path, ["en"], "source", MIXED[:2])[0][1]["g"].shape == (2, 4)


def test_teachers_say_what_they_read():
    assert msd.load_teacher("hashed-words", dim=4).languages is None
    teacher = msd.load_teacher("hashed-words", dim=4, languages=["en", "de"])
    assert teacher.languages == ("en", "de")
    assert msd.load_teacher(teacher).languages == ("en", "de")
    with pytest.raises(InputError, match="`languages` must be a list.*'en'"):
        msd.load_teacher("hashed-words", dim=4, languages="en")
