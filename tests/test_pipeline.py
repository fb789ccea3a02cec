import gc

import keras
import numpy as np
import pytest
from mean_target import MeanTarget
from tiny_data import HashGuide, WordEncoder, WordTokenizer, triples

from keras_msd.data import (
    GuideStore,
    PairBatches,
    Pairs,
    PairTable,
    tensorflow_dataset,
)


@pytest.fixture
def parts(tmp_path):
    pairs = Pairs.from_list(triples({"de": 100, "fr": 60}))
    table = PairTable.build(pairs, WordTokenizer(), tmp_path / "table", max_length=32)
    store = GuideStore(HashGuide(), tmp_path / "store")
    return table, WordEncoder(), {"teacher": (store, "source")}


def pair_dataset(*given, **options):
    return tensorflow_dataset(PairBatches(*given, **options))


def equal(dataset, batches, positions):
    found = list(dataset)
    assert len(found) == len(positions)
    for (x, y), position in zip(found, positions, strict=True):
        expected_x, expected_y = batches.batch(position)
        assert x.keys() == expected_x.keys() and y.keys() == expected_y.keys()
        for name, value in (*x.items(), *y.items()):
            np.testing.assert_array_equal(value, (expected_x | expected_y)[name])


def test_every_pass_is_the_next_epoch(parts):
    dataset = pair_dataset(*parts, batch_size=16, seed=3)
    batches = PairBatches(*parts, batch_size=16, seed=3)
    steps = int(dataset.cardinality())
    assert steps == len(batches)
    for number in range(3):
        first = number * steps
        next(iter(dataset))  # a look at the first batch is no pass
        equal(dataset, batches, range(first, first + steps))


def test_some_epochs_in_a_pass(parts):
    rest = PairBatches(*parts, batch_size=16, epochs=3, seed=3).after(11)
    dataset = tensorflow_dataset(rest)
    batches = PairBatches(*parts, batch_size=16, seed=3)
    assert int(dataset.cardinality()) == 19
    for _ in range(2):
        equal(dataset, batches, range(11, 30))


@pytest.mark.parametrize("rows", [15, 16])
def test_shapes(parts, rows):
    x, y = pair_dataset(*parts, batch_size=rows).element_spec
    assert x["source_token_ids"].shape.as_list() == [rows, None]
    assert x["group"].shape.as_list() == [rows]
    assert y["teacher"].shape.as_list() == [rows, 4]
    assert {spec.dtype.name for spec in x.values()} == {"int32"}
    assert y["teacher"].dtype.name == "float32"


def test_fit_knows_the_steps(parts):
    model = MeanTarget()
    model.compile(optimizer=keras.optimizers.SGD(0.0))
    dataset = pair_dataset(*parts, batch_size=16)
    history = model.fit(dataset, epochs=3, shuffle=False, verbose=0).history["loss"]
    batches = PairBatches(*parts, batch_size=16)
    expected = [
        np.mean([batches.batch(10 * e + i)[1]["teacher"].mean() for i in range(10)])
        for e in range(3)
    ]
    np.testing.assert_allclose(history, expected, rtol=1e-5)


def test_no_tuner_can_delay_the_end(parts):
    dataset = pair_dataset(*parts, batch_size=16)
    assert dataset.options().autotune.enabled is False


def test_temporary_tables_live_as_long_as_the_dataset(parts):
    _, encoder, guides = parts
    dataset = pair_dataset(triples({"de": 20}), encoder, guides, batch_size=4)
    gc.collect()
    assert len(list(dataset)) == 5
