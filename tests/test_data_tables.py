"""Tables of texts and token ids; rows that cannot be read stop, or are counted."""

import json
import shutil

import numpy as np
import pytest
from damages import cut, empty, flip
from small_recipe import write_rows
from tiny_data import WordTokenizer, sentences, triples

from keras_msd.checks import InputError
from keras_msd.data import (
    Cleaning,
    Pair,
    Pairs,
    PairTable,
    TextTable,
    read_pairs,
)
from keras_msd.data.tables import share_out
from keras_msd.io.files import text_hash
from keras_msd.report import write_report

TSV = (
    b"A house.\tEin Haus.\n"
    b"no translation\n"
    b"A cat.\tEine Katze.\n"
    b"Not \xff UTF-8.\tNein.\n"
    b"A dog.\tEin Hund.\n"
)
JSONL = (
    b'{"source": "A house.", "target": "Ein Haus."}\n'
    b"{broken\n"
    b'{"source": "A cat.", "target": "Eine Katze."}\n'
    b'{"source": "alone"}\n'
    b'{"source": "A dog.", "target": "Ein Hund."}\n'
)
CSV = (
    b"de,en\n"
    b"Ein Haus.,A house.\n"
    b"kein Satz\n"
    b'Eine Katze.,"A cat."\n'
    b'Ein Satz, zwei,"A, b"\n'
    b"Ein Hund.,A dog.\n"
)
KEPT = ["Ein Haus.", "Eine Katze.", "Ein Hund."]


@pytest.fixture
def pairs():
    return Pairs.from_list(triples({"de": 40, "fr": 25}))


def test_tokens_texts_groups(pairs, tmp_path):
    table = PairTable.build(pairs, WordTokenizer(), tmp_path / "t", max_length=8)
    assert len(table) == len(table.texts) == 65
    assert [tuple(vars(one).values()) for one in table.files] == [
        ("memory.en-de", "de", 0, 40, "en"),
        ("memory.en-fr", "fr", 40, 65, "en"),
    ]
    assert list(table.texts) == list(pairs)
    for side in ("source", "target"):
        texts = [getattr(pair, side) for pair in pairs]
        expected = WordTokenizer().encode(texts, 8)
        assert table.texts.texts(side, 10, 13) == texts[10:13]
        lengths = [len(ids) for ids in expected]
        assert table.lengths(side, np.arange(65)).tolist() == lengths
        ids, mask = table.padded(side, np.array([64]), 9)
        assert ids[0, mask[0] == 1].tolist() == expected[64]
    english = [pair.source for pair in pairs]
    for a, b in ((0, 40), (3, 43), (3, 44), (7, 7)):
        same = table.groups(np.array([a]))[0] == table.groups(np.array([b]))[0]
        assert same == (english[a] == english[b])
    first = np.frombuffer(text_hash(english[0].encode())[:8], np.uint64)
    assert table.groups(np.array([0])) == first


def test_filters_and_duplicates_are_counted(tmp_path):
    rows = [
        ("a  house", "ein Haus", "de"),
        ("a house", "ein\tHaus", "de"),  # the same once normalised
        ("a house", "ein Haus", "nl"),  # another language
        ("", "leer", "de"),
        ("x" * 99, "y", "de"),
        ("a house", "das Haus", "de"),
    ]
    table = TextTable.build(
        Pairs.from_list(rows), tmp_path / "t", cleaning=Cleaning(max_ratio=2)
    )
    assert list(table) == [
        Pair("a house", "ein Haus", "de"),
        Pair("a house", "das Haus", "de"),
        Pair("a house", "ein Haus", "nl"),
    ]
    german, dutch = table.counts
    lost = {"empty": 1, "ratio": 1, "duplicate": 1, "limit": 0}
    assert german.items() >= (lost | {"read": 5, "kept": 2}).items()
    assert dutch["read"] == dutch["kept"] == 1


def test_limit_per_language(tmp_path):
    sizes = {"a.en-de": 300, "b.en-de": 20, "c.en-de": 200, "d.en-fr": 50}
    for name, size in sizes.items():
        rows = [(f"{name} {text}", f"x {text}") for text in sentences(size)]
        write_rows(tmp_path / f"in/{name}.tsv", rows)
    pairs, build = read_pairs(tmp_path / "in"), TextTable.build
    table = build(pairs, tmp_path / "t", limit_per_language=120, seed=3)
    kept = [(one["language"], one["kept"], one["limit"]) for one in table.counts]
    assert kept == [("de", 50, 250), ("de", 20, 0), ("de", 50, 150), ("fr", 50, 0)]
    everything = list(pairs)
    places = [everything.index(pair) for pair in table]
    assert places == sorted(places) and len(set(places)) == 170
    drawn = np.array([place for place in places if place < 300])
    assert drawn.max() > 250 and abs(drawn.mean() - 150) < 60, "from the whole file"
    again = build(pairs, tmp_path / "again", limit_per_language=120, seed=3)
    assert list(again) == list(table)
    other = build(pairs, tmp_path / "other", limit_per_language=120, seed=4)
    assert len(other) == 170 and list(other) != list(table)


@pytest.mark.parametrize(
    ("sizes", "limit", "shares"),
    [
        ([10, 2, 10], 12, [5, 2, 5]),
        ([3, 3], 100, [3, 3]),
        ([9, 9, 9], 10, [3, 3, 4]),
        ([0, 5], 4, [0, 4]),
    ],
)
def test_share_out(sizes, limit, shares):
    assert share_out(sizes, limit) == shares


def test_share_out_by_size():
    assert share_out([10, 30, 60], 10, temperature=1) == [1, 3, 6]
    assert share_out([1, 99], 60, temperature=2) == [1, 59]


def test_limit_per_file_stops_reading(tmp_path):
    path = tmp_path / "x.en-de.tsv"
    path.write_bytes(b"a\tb\nc\td\ne\tf\n\xff\n")
    table = TextTable.build(read_pairs(path), tmp_path / "t", limit_per_file=2)
    assert list(table) == [Pair("a", "b", "de"), Pair("c", "d", "de")]
    with pytest.raises(InputError, match="line 4"):
        TextTable.build(read_pairs(path), tmp_path / "u", limit_per_file=4)
    assert not (tmp_path / "u").exists(), "nothing is left behind"
    assert [one.name for one in tmp_path.iterdir() if one.name[0] == "."] == []


def test_texts_of_one_table_for_two_tokenizers(pairs, tmp_path):
    texts = TextTable.build(pairs, tmp_path / "texts")
    table = PairTable.build(texts, WordTokenizer(), tmp_path / "t", max_length=9)
    assert table.texts.folder == texts.folder
    again = TextTable.build(texts.pairs(), tmp_path / "copy")
    assert list(again) == list(texts) == list(PairTable.open(tmp_path / "t").texts)
    with pytest.raises(InputError, match="already cleaned.*limit_per_file"):
        PairTable.build(texts, WordTokenizer(), tmp_path / "u", limit_per_file=1)


def test_a_table_is_found_again_and_never_mistaken(pairs, tmp_path):
    class Counting(WordTokenizer):
        calls = 0

        def encode(self, texts, max_length=None):
            Counting.calls += 1
            return super().encode(texts, max_length)

    folder = tmp_path / "t"
    PairTable.build(pairs, Counting(), folder, max_length=8)
    calls = Counting.calls
    again = PairTable.build(pairs, Counting(), folder, max_length=8)
    assert Counting.calls == calls and len(again) == 65
    with pytest.raises(InputError, match="another tokenizer or other settings"):
        PairTable.build(pairs, WordTokenizer(), folder, max_length=9)
    other = Counting()
    other.fingerprint = "other"
    with pytest.raises(InputError, match="another tokenizer or other settings"):
        PairTable.build(pairs, other, folder, max_length=8)
    shorter = Pairs.from_list(list(pairs)[1:])
    with pytest.raises(InputError, match="a table of other files, another"):
        PairTable.build(shorter, Counting(), folder, max_length=8)
    with pytest.raises(InputError, match="a table of other files, another"):
        PairTable.build(pairs, Counting(), folder, max_length=8, seed=1)


def test_open_checks_what_is_there(pairs, tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        PairTable.open(tmp_path / "nothing")
    PairTable.build(pairs, WordTokenizer(), tmp_path / "t")
    for name in ("texts/texts.json", "tokens/tokens.json"):
        path = tmp_path / "t" / name
        meta = json.loads(path.read_text())
        path.write_text(json.dumps(meta | {"version": 99}))
        with pytest.raises(InputError, match="format 99.*Delete"):
            PairTable.open(tmp_path / "t")
        path.write_text(json.dumps(meta))
    path = tmp_path / "t" / "texts" / "texts.json"
    TextTable.build(Pairs.from_list(list(pairs)[1:]), tmp_path / "other")
    shutil.rmtree(path.parent)
    (tmp_path / "other").rename(path.parent)
    with pytest.raises(InputError, match="not those that"):
        PairTable.open(tmp_path / "t")


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("texts/source.values", flip),
        ("texts/target.offsets", cut),
        ("texts/texts.json", empty),
        ("tokens/source.values", cut),
        ("tokens/target.offsets", empty),
        ("tokens/groups", flip),
        ("tokens/tokens.json", flip),
    ],
)
def test_a_damaged_table_is_refused_and_built_again(pairs, tmp_path, name, how):
    PairTable.build(pairs, WordTokenizer(), tmp_path / "t")
    whole = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    how(tmp_path / "t" / name)
    with pytest.raises(InputError, match=r"t/t.*\.|line 1"):
        PairTable.open(tmp_path / "t")
    with pytest.warns(UserWarning, match="This is done now"):
        PairTable.build(pairs, WordTokenizer(), tmp_path / "t")
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == whole


def test_nothing_left(tmp_path):
    pairs = Pairs.from_list([Pair(" ", "x", "de")])
    with pytest.raises(InputError, match="No pair is left.*'empty': 1"):
        TextTable.build(pairs, tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(
    params=[("x.en-de.tsv", TSV), ("x.en-de.jsonl", JSONL), ("x.en-de.csv", CSV)]
)
def dirty(request, tmp_path):
    name, content = request.param
    path = tmp_path / name
    path.write_bytes(content)
    return read_pairs(path)


def test_two_rows_are_skipped_and_counted(dirty, tmp_path):
    table = TextTable.build(dirty, tmp_path / "table", dirty_rows=2)
    assert [pair.target for pair in table] == KEPT
    (count,) = table.counts
    assert (count["read"], count["dirty"], count["kept"]) == (3, 2, 3)
    lines = [int(text.partition(", line ")[2][0]) for text in count["dirty_rows"]]
    one_kind = str(dirty.files[0].paths[0]).endswith("csv")
    assert lines == ([3] if one_kind else [2, 4])
    again = TextTable.build(dirty, tmp_path / "table", dirty_rows=2)
    assert again.counts == table.counts


def test_one_row_too_many_stops(dirty, tmp_path):
    with pytest.raises(InputError, match="line [45]: .* 1 such rows were skipped b"):
        TextTable.build(dirty, tmp_path / "table", dirty_rows=1)
    with pytest.raises(InputError, match="line [23]: (?!.*skipped before)"):
        TextTable.build(dirty, tmp_path / "table")
    assert not (tmp_path / "table").exists()
    with pytest.raises(InputError, match="line [23]: "):
        list(dirty)
    with pytest.raises(InputError, match="`dirty_rows` must be at least 1"):
        TextTable.build(dirty, tmp_path / "table", dirty_rows=0)


def test_each_kind_of_fault_is_told_the_frequent_ones_first(tmp_path):
    """The first rows alone would hide all but one kind."""
    path = tmp_path / "x.en-de.tsv"
    path.write_bytes(b"\xff\n" + b"bad\n" * 9 + TSV)
    table = TextTable.build(read_pairs(path), tmp_path / "table", dirty_rows=12)
    assert table.counts[0]["dirty"] == 12
    told = [text.partition(", line ")[2] for text in table.counts[0]["dirty_rows"]]
    rules = ["2: a line must", "1: text must be"]
    assert len(told) == len(rules)
    assert all(text.startswith(rule) for text, rule in zip(told, rules, strict=True))


@pytest.mark.parametrize(
    "row", [b'"Ein Hund\nA cat.,Katze"\n', b"Nein \xff.,No.\n", b'a,"b" c\n', b'"a,b\n']
)
def test_an_open_quote_stops(row, tmp_path):
    """What a CSV row of several lines took in may be rows that nobody counts."""
    path = tmp_path / "x.en-de.csv"
    path.write_bytes(CSV + row)
    with pytest.raises(InputError, match=r"x.en-de.csv`, line [78]: (?!.*skipped)"):
        TextTable.build(read_pairs(path), tmp_path / "table", dirty_rows=99)


def test_sides_of_moses_never_shift(tmp_path):
    (tmp_path / "x.en").write_bytes(b"A house.\nBad \xff.\nA dog.\n")
    (tmp_path / "x.de").write_text("Ein Haus.\nSchlecht.\nEin Hund.\n")
    with pytest.raises(InputError, match="line 2: text must be UTF-8"):
        TextTable.build(read_pairs(tmp_path / "x.en"), tmp_path / "t", dirty_rows=5)


def test_the_report_shows_them(tmp_path):
    counts = [
        {"name": "clean", "read": 9},
        {"name": "x.tsv", "read": 3, "dirty": 2, "dirty_rows": ["line 2: <b>"]},
    ]
    pairs = tmp_path / "stages" / "pairs"
    pairs.mkdir(parents=True)
    (pairs / "done.json").write_text(json.dumps({"result": {"counts": counts}}))
    (tmp_path / "recipe.toml").write_text("recipe.name = 'mine'")
    scores = {"recipe": "mine", "scale": "lab", "rows": []}
    (tmp_path / "scores.json").write_text(json.dumps(scores))
    (tmp_path / "timings.json").write_text(json.dumps({"parts": {}}))
    page = write_report(tmp_path).read_text()
    assert "Rows that were skipped" in page and "2 of 5" in page
    assert "line 2: &lt;b&gt;" in page and "clean" not in page
