"""What a fit used is free again when nothing of the user's refers to it."""

import gc
import weakref

import keras
import pytest
from tiny_data import HashGuide, triples

from keras_msd.data import GuideStore, PairBatches, Pairs, ScoredBatches
from keras_msd.stages import RegressSimilarity, TeachAssistant
from keras_msd.testing import tiny_encoder

ROWS = [(float(i % 2), f"one {i}", f"two {i}") for i in range(8)]


def taught(tokenizer, folder):
    encoder = tiny_encoder(tokenizer, num_layers=1)
    store = GuideStore(HashGuide(16), folder)
    pairs = Pairs.from_list(triples({"de": 16}))
    dataset = PairBatches(pairs, encoder, {"teacher": (store, "source")}, 8, epochs=1)
    stage = TeachAssistant(encoder)
    stage.compile(keras.optimizers.AdamW(1e-3, global_clipnorm=1.0))
    stage.fit(dataset, shuffle=False, verbose=0)
    return [weakref.ref(one) for one in (encoder.model, stage, store)]


def regressed(tokenizer, folder):
    encoder = tiny_encoder(tokenizer, num_layers=0)
    stage = RegressSimilarity(encoder)
    stage.compile(keras.optimizers.SGD(1e-3))
    dataset = ScoredBatches(ROWS, encoder, batch_size=4)
    stage.fit(dataset, shuffle=False, verbose=0)
    return [weakref.ref(one) for one in (encoder.model, stage)]


def graphs():
    gc.collect()
    return sum(type(one).__name__ == "FuncGraph" for one in gc.get_objects())


@pytest.mark.parametrize("work", [taught, regressed])
def test_fit_leaves_nothing_behind(tokenizer, tmp_path, work):
    before = graphs()
    references = work(tokenizer, tmp_path)
    assert graphs() == before
    assert [reference() for reference in references] == [None] * len(references)
