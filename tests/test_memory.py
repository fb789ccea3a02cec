"""What a fit used is free again when nothing of the user's refers to it."""

import gc
import weakref

import keras
from tiny_data import HashGuide

from keras_msd.data import GuideStore, PairBatches
from keras_msd.stages import TeachAssistant
from keras_msd.testing import tiny_encoder, tiny_pairs


def trained(tokenizer, folder):
    encoder = tiny_encoder(tokenizer, num_layers=0)
    guides = {"teacher": (GuideStore(HashGuide(16), folder), "source")}
    batches = PairBatches(tiny_pairs(), encoder, guides, 4, epochs=1, multiple=32)
    stage = TeachAssistant(encoder)
    stage.compile(keras.optimizers.AdamW(1e-3, global_clipnorm=1.0))
    stage.fit(batches, shuffle=False, verbose=0)
    return [weakref.ref(one) for one in (encoder.model, stage, guides["teacher"][0])]


def graphs():
    gc.collect()
    return sum(type(one).__name__ == "FuncGraph" for one in gc.get_objects())


def test_fit_leaves_nothing_behind(tokenizer, tmp_path):
    before = graphs()
    references = trained(tokenizer, tmp_path)
    assert graphs() == before
    assert [reference() for reference in references] == [None] * len(references)
