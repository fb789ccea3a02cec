"""benchmarks/input.py reads tables of the layout that the library reads."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from keras_msd.data import GuideStore, PairBatches, PairTable

PAIRS, LINES = 700, 100


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import input

    yield input
    for name in ("input", "memory_epoch"):
        sys.modules.pop(name, None)


def test_a_made_table_is_read_as_any_other(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "CHUNK", 256)  # so that the texts are of several
    store = GuideStore(bench.MadeVectors(), tmp_path / "store")
    store.build(map(bench.line, range(LINES)))
    bench.write_table(tmp_path / "table", PAIRS, LINES)
    table = PairTable.open(tmp_path / "table")
    texts = table.texts.texts("source", 0, PAIRS)
    assert texts == [bench.line(number % LINES) for number in range(PAIRS)]
    lengths = table.lengths("target", np.arange(PAIRS))
    assert 4 <= lengths.min() < 12 < 17 < lengths.mean() < 21 < 40 < lengths.max() <= 64

    encoder = SimpleNamespace(tokenizer=bench.MadeTokens(), max_length=64)
    guides = {"teacher": (bench.Numbered(bench.MadeVectors(), store.folder), "source")}
    batches = PairBatches(table, encoder, guides, batch_size=PAIRS)
    x, y = batches[0]
    rows = batches.stream.rows(0)
    vectors = store.targets([texts[row] for row in rows])
    np.testing.assert_array_equal(y["teacher"], vectors)
    assert len(np.unique(x["group"])) == len(np.unique(rows % LINES))
    np.testing.assert_array_equal(
        x["target_padding_mask"].sum(axis=1), table.lengths("target", rows)
    )


def test_what_a_table_feeds_and_how_memory_grows(bench):
    rows = [
        {"way": way, "pairs_per_second": speed, "private_bytes": private}
        for way, speed, private in (
            ("dataset", 900, 100), ("dataset", 800, 103), ("batches", 90, 100),
            ("batches", 40, 200),
        )
    ]  # fmt: skip
    assert bench.summary(rows, [80.0, 1600.0]) == {
        "private_ratio": {"dataset": 1.03, "batches": 2.0},
        "replicas": {
            "80 pairs/s": {"dataset": 10.0, "batches": 0.5},
            "1600 pairs/s": {"dataset": 0.5, "batches": 0.0},
        },
    }
