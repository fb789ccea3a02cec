"""Pairs from rows with named columns: CSV, parquet, data frames, rows in memory."""

import gzip

import pytest

import keras_msd as msd
from keras_msd import InputError
from keras_msd.data import read_pairs
from keras_msd.data.readers import tables

ROWS = [("A house.", "Ein Haus."), ("Tea, please.", 'Tee, "bitte".')]


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


def test_columns_may_be_source_and_target(tmp_path):
    path = written(tmp_path, '"source",target\n"Tea, please.","Tee, ""bitte""."\n')
    assert rows_of(read_pairs(path, language="de")) == ROWS[1:]
    with pytest.raises(InputError, match="give `language`"):
        read_pairs(path)


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
