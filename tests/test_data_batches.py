"""Batches: what they hold, which pairs they draw, and that any place is found again."""

import gc
import itertools
from collections import Counter

import keras
import numpy as np
import pytest
from mean_target import MeanTarget
from tiny_data import HashGuide, WordEncoder, WordTokenizer, triples

from keras_msd.checks import InputError
from keras_msd.data import (
    GuideStore,
    PairBatches,
    Pairs,
    PairTable,
    tensorflow_dataset,
)
from keras_msd.data.order import BatchStream, least_padding


@pytest.fixture
def table(tmp_path):
    pairs = Pairs.from_list(triples({"de": 200, "fr": 100, "tr": 30}))
    return PairTable.build(pairs, WordTokenizer(), tmp_path / "table", max_length=32)


def all_rows(stream, epoch=0):
    steps = range(stream.steps(epoch), stream.steps(epoch + 1))
    return [stream.rows(position) for position in steps]


def same(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])


def test_what_a_batch_holds(table, tmp_path):
    guide, other = HashGuide(dim=4), HashGuide(dim=3, fingerprint="other")
    guides = {
        "teacher": (GuideStore(guide, tmp_path / "a"), "source"),
        "assistant_target": (GuideStore(other, tmp_path / "b"), "target"),
    }
    batches = PairBatches(table, WordEncoder(), guides, batch_size=16)
    tokenizer, pairs = WordTokenizer(), list(table.texts)
    assert len(batches) == 330 // 16
    repeated = 0
    for index in range(len(batches)):
        x, y = batches[index]
        own = [pairs[row] for row in batches.stream.rows(index)]
        english = [pair.source for pair in own]
        for side in ("source", "target"):
            texts = [getattr(pair, side) for pair in own]
            expected = tokenizer.encode(texts, 32)
            ids, mask = x[f"{side}_token_ids"], x[f"{side}_padding_mask"]
            assert ids.dtype == mask.dtype == np.int32
            length = ids.shape[1]
            assert length == max(map(len, expected))
            for row, one, real in zip(expected, ids, mask, strict=True):
                assert one.tolist() == row + [0] * (length - len(row))
                assert real.sum() == len(row) and real[: len(row)].all()
        assert x["group"].dtype == np.int32
        assert x["group"].tolist() == [english.index(text) for text in english]
        repeated += len(english) - len(set(english))
        assert {name: value.dtype for name, value in y.items()} == {
            "teacher": np.float32,
            "assistant_target": np.float32,
        }
        np.testing.assert_array_equal(y["teacher"], [*map(guide.vector, english)])
        targets = [other.vector(pair.target) for pair in own]
        np.testing.assert_array_equal(y["assistant_target"], targets)
    assert repeated > 0


def test_a_short_pass_asks_for_no_vector_that_it_does_not_read(table, tmp_path):
    def make(guide, folder, **options):
        guides = {"teacher": (GuideStore(guide, tmp_path / folder), "target")}
        options |= {"batch_size": 16, "epochs": 2}
        return PairBatches(table, WordEncoder(), guides, **options)

    guide = HashGuide(dim=4)
    short = make(guide, "store", steps=3)
    stream, texts = short.stream, [pair.target for pair in table.texts]
    read = {texts[row] for place in range(3) for row in stream.rows(place)}
    assert len(short) == 3 and sorted(guide.asked) == sorted(read)
    whole = make(HashGuide(dim=4), "whole")
    for index in range(3):
        same(short[index], whole[index])
    all_of_it = make(guide, "store")
    assert len(all_of_it) == len(whole) == 40
    for index in range(len(whole)):
        same(all_of_it[index], whole[index])
    assert sorted(guide.asked) == sorted({*texts})
    assert len(make(guide, "store", steps=1000)) == len(whole)
    with pytest.raises(InputError, match="steps=3, no epochs"):
        PairBatches(table, WordEncoder(), {}, batch_size=16, steps=3)


def test_a_weighted_file_is_drawn_more_or_less_often(table):
    names = [file.name for file in table.files]
    weights = {names[0]: 0.5, names[2]: 2.0}
    stream = BatchStream(table, 10, temperature=1, weights=weights)
    rows = np.concatenate(all_rows(stream))
    files = Counter(np.searchsorted([200, 300, 330], rows, side="right").tolist())
    # 200 * 0.5, 100 and 30 * 2 of 260, in 330 draws
    assert files == {0: 127, 1: 127, 2: 76}
    plain = BatchStream(table, 10, temperature=1)
    even = BatchStream(table, 10, temperature=1, weights={names[0]: 1.0})
    same_rows = zip(all_rows(plain), all_rows(even), strict=True)
    assert all((one == other).all() for one, other in same_rows)
    keys = [
        PairBatches(table, WordEncoder(), {}, 10, weights=it).identity
        for it in (None, weights, {names[0]: 0.5})
    ]
    assert len(set(keys)) == 3, "a checkpoint knows the weights of its draws"


def test_little_padding_and_mixed_lengths(table):
    stream = BatchStream(table, 10)
    batches = all_rows(stream)
    drawn = np.split(stream.order.rows(0, 0, 330), 33)
    sides, rows = ("source", "target"), np.concatenate(batches)

    def padded(batches):
        of = [table.lengths(side, rows) for side in sides for rows in batches]
        return sum(len(lengths) * -(-lengths.max() // 8) * 8 for lengths in of)

    real = sum(table.lengths(side, rows).sum() for side in sides)
    assert padded(batches) < 1.3 * real and padded(drawn) > 1.6 * real
    longest = [int(table.lengths("source", batch).max()) for batch in batches]
    assert longest not in (sorted(longest), sorted(longest)[::-1])


@pytest.mark.parametrize("buckets", [1, 2, 3])
def test_batches_have_one_of_a_few_shapes(table, buckets):
    batches = PairBatches(table, WordEncoder(), {}, 10, epochs=4, buckets=buckets)
    shapes, drawn = set(), Counter()
    for place in range(len(batches)):
        x, _ = batches[place]
        sides = [x[f"{side}_token_ids"].shape for side in ("source", "target")]
        shapes.add(tuple(sides))
        rows = batches.stream.rows(place)
        drawn.update(rows.tolist())
        for side in ("source", "target"):  # nothing is cut
            real = x[f"{side}_padding_mask"].sum(axis=1)
            np.testing.assert_array_equal(real, table.lengths(side, rows))
    assert len(shapes) <= buckets and (buckets == 1 or len(shapes) > 1)
    order = batches.stream.order
    epochs = [order.rows(epoch, 0, 330) for epoch in range(4)]
    assert drawn == Counter(np.concatenate(epochs).tolist())
    same(batches[3], PairBatches(table, WordEncoder(), {}, 10, buckets=buckets)[3])
    free = PairBatches(table, WordEncoder(), {}, 10, epochs=4)
    assert free.identity != batches.identity


@pytest.mark.parametrize("seed", range(5))
def test_no_other_shapes_pad_less(seed):
    draw = np.random.default_rng(seed)
    pairs = draw.integers(1, 6, (20, 2))
    longest = tuple(pairs.max(axis=0).tolist())
    shapes = list(itertools.product(range(1, 6), repeat=2))

    def padded(chosen):
        held = ([sum(it) for it in chosen if np.all(it >= pair)] for pair in pairs)
        return sum(map(min, held))

    def rising(chosen):
        return (np.diff(chosen, axis=0) >= 0).all()

    for most in range(1, 4):
        found = least_padding(pairs.T, most, limit=5)
        others = (
            [*other, longest] for other in itertools.combinations(shapes, most - 1)
        )
        assert padded(found) == min(map(padded, filter(rising, others)))
        assert len(found) <= most and found == sorted(found) and rising(found)


def test_any_place_is_found_again(table, monkeypatch):
    monkeypatch.setattr("keras_msd.data.order.WINDOW_BATCHES", 4)
    monkeypatch.setattr("keras_msd.data.order.WINDOW_PAIRS", 1)
    whole = BatchStream(table, 16, seed=5)
    expected = [whole.rows(position).tolist() for position in range(80)]
    assert len({tuple(rows) for rows in expected}) == 80
    for position in (79, 0, 41, 40, 20, 79):
        fresh = BatchStream(table, 16, seed=5)
        assert fresh.rows(position).tolist() == expected[position]
        assert whole.rows(position).tolist() == expected[position]
    assert BatchStream(table, 16, seed=6).rows(0).tolist() != expected[0]


def test_start_and_epochs(table):
    def build(**options):
        return PairBatches(table, WordEncoder(), {}, 16, **options)

    whole = build(epochs=3, seed=2)
    assert len(whole) == 60
    rest = whole.after(47)
    assert len(rest) == 13
    for index in (0, 1, 12, 5):  # the next one is made ahead, or another is asked for
        same(rest[index], whole[47 + index])
    whole.on_epoch_end()
    same(whole[0], build(seed=2)[0])
    with pytest.raises(IndexError):
        whole[60]


def test_a_temporary_table_goes_with_its_batches():
    batches = PairBatches(triples({"de": 20}), WordEncoder(max_length=16), {}, 8)
    assert batches.table.max_length == 16
    folder = batches.table.folder.parent
    assert folder.is_dir()
    del batches
    gc.collect()
    assert not folder.exists()


def test_wrong_arguments(table, tmp_path):
    store = GuideStore(HashGuide(), tmp_path / "store")
    other = WordEncoder()
    other.tokenizer.fingerprint = "other"
    cases = [
        (r"\(store, .source.\)", {"guides": {"teacher": store}}),
        (r"\(store, .source.\)", {"guides": {"teacher": (store, "english")}}),
        ("number of pairs.*batch_size=331, 330", {"batch_size": 331}),
        ("`max_length` must be at most the encoder's", {"max_length": 33}),
        ("must be cut at 16 tokens.*max_length=32", {"max_length": 16}),
        ("must be cut at 16", {"encoder": WordEncoder(max_length=16)}),
        ("another tokenizer", {"encoder": other}),
        ("`temperature`", {"temperature": 0}),
        ("`epochs` must be at least 1", {"epochs": 0}),
        ("`buckets` must be at least 1", {"buckets": 0}),
        ("name of a file.*'nl'.*memory.en-de", {"weights": {"nl": 1.0}}),
        ("above 0.*memory.en-de': 0", {"weights": {"memory.en-de": 0}}),
    ]
    for match, options in cases:
        arguments = {"encoder": WordEncoder(), "guides": {}} | options
        with pytest.raises(InputError, match=match):
            PairBatches(table, **arguments)


@pytest.mark.parametrize("processes", [2, 4])
def test_the_parts_of_all_processes_are_the_batch(table, tmp_path, processes):
    store = GuideStore(HashGuide(), tmp_path / "store")
    guides = {"teacher": (store, "target")}
    whole = PairBatches(table, WordEncoder(), guides, 16, epochs=2)
    parts = [whole.of_process(index, processes) for index in range(processes)]
    with pytest.raises(InputError, match="16 rows, 3 processes with 1 devices"):
        whole.of_process(0, 3)[0]
    assert {part.identity for part in parts} == {whole.identity}
    for index in (0, 19, 25):
        read = [part.after(3)[index - 3] if index else part[0] for part in parts]
        for kind in (0, 1):
            joined = {
                name: np.concatenate([part[kind][name] for part in read])
                for name in read[0][kind]
            }
            same([joined], [whole[index][kind]])


@pytest.fixture
def parts(table, tmp_path):
    store = GuideStore(HashGuide(), tmp_path / "store")
    return table, WordEncoder(), {"teacher": (store, "source")}


def pair_dataset(*given, **options):
    return tensorflow_dataset(PairBatches(*given, **options))


def test_every_pass_is_the_next_epoch(parts):
    dataset = pair_dataset(*parts, batch_size=16, seed=3)
    batches = PairBatches(*parts, batch_size=16, seed=3)
    steps = int(dataset.cardinality())
    assert steps == len(batches)
    for number in range(3):
        first = number * steps
        next(iter(dataset))  # a look at the first batch is no pass
        places = range(first, first + steps)
        for batch, place in zip(dataset, places, strict=True):
            same(batch, batches.batch(place))


@pytest.mark.parametrize("make", [pair_dataset, PairBatches])
def test_fit_draws_the_stream_in_order(parts, make):
    model = MeanTarget()
    model.compile(optimizer=keras.optimizers.SGD(0.0))
    data = make(*parts, batch_size=16)
    history = model.fit(data, epochs=3, shuffle=False, verbose=0).history["loss"]
    assert len({*history}) == 3
    batches = PairBatches(*parts, batch_size=16, epochs=3)
    means = [y["teacher"].mean() for _, y in map(batches.batch, range(len(batches)))]
    expected = np.reshape(means, (3, -1)).mean(axis=1)
    np.testing.assert_allclose(history, expected, rtol=1e-5)


def test_temporary_tables_live_as_long_as_the_dataset(parts):
    _, encoder, guides = parts
    dataset = pair_dataset(triples({"de": 20}), encoder, guides, batch_size=4)
    gc.collect()
    assert len(list(dataset)) == 5
