"""Rows that cannot be read stop the reading, or are skipped and counted."""

import json

import pytest

from keras_msd.checks import InputError
from keras_msd.data import READERS, Reader, TextTable, read_pairs
from keras_msd.data.tables import _DirtyRows
from keras_msd.recipes.load import load_recipe
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


def test_faults_without_a_common_rule_take_little_memory():
    dirty = _DirtyRows(10_000)
    for number in range(9999):
        dirty.skip(InputError(f"{number} is wrong"))
    assert dirty.count == 9999 and dirty.worst() == [f"{n} is wrong" for n in range(5)]
    assert len(dirty._first) == 50


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


def test_a_reader_of_ones_own_may_skip(tmp_path, monkeypatch):
    def read(path, languages):
        for line in path.read_text().splitlines():
            has_sign = "=" in line
            yield (
                tuple(line.split("="))
                if has_sign
                else InputError(f"{line} has no sign")
            )

    reader = Reader(suffixes=(".sgn",), read=read)
    monkeypatch.setitem(READERS, "signs", reader)
    (tmp_path / "x.en-de.sgn").write_text("a=b\nc\n")
    pairs = read_pairs(tmp_path / "x.en-de.sgn")
    table = TextTable.build(pairs, tmp_path / "table", dirty_rows=1)
    assert table.counts[0]["dirty_rows"] == ["c has no sign"]


def test_a_recipe_says_it_only_where_it_is_set():
    name = "msd_minilm_b128_ru3"
    plain = load_recipe(name, "smoke")
    assert "dirty_rows" not in plain.settings()["data"]
    chosen = load_recipe(name, "smoke", {"data.dirty_rows": 7})
    assert chosen.settings()["data"]["dirty_rows"] == 7


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
