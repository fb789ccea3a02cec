"""Vocabularies with more pieces: all that was there stays as it was."""

import numpy as np
import pytest
from tokenizer_files import write_wordpiece

from keras_msd.checks import InputError
from keras_msd.starts import closed_form_encoder, extend_vocabulary
from keras_msd.testing import tiny_encoder, tiny_pairs
from keras_msd.tokenizers import (
    extend_unigram,
    read_checkpoint_tokenizer,
    train_unigram,
)

WORDS = ("nebelbank", "zwielicht", "åska", "morgonrodnad", "the", "fog")


def texts_of(count=300):
    draw = np.random.default_rng(5)
    return [" ".join(draw.choice(WORDS, 4)) for _ in range(count)]


@pytest.fixture(scope="module")
def known():
    texts = [text for pair in tiny_pairs() for text in pair[:2]]
    return train_unigram(texts, 120, at_most=True, case_fold=True)


@pytest.fixture(scope="module")
def more(known):
    return extend_unigram(known, train_unigram(texts_of(), 60, at_most=True))


@pytest.fixture(scope="module")
def encoder(known):
    table = np.random.default_rng(1).normal(size=(known.vocabulary_size, 12))
    return closed_form_encoder(known, table.astype("float32"), max_length=32)


def test_old_ids_stay_and_no_piece_comes_twice(known, more):
    pieces = more.pieces()
    assert pieces[: known.vocabulary_size] == known.pieces()
    assert len({*pieces}) == len(pieces) > known.vocabulary_size
    assert {"▁nebelbank", "▁morgonrodnad"} <= {*pieces}


def test_text_is_prepared_as_before(more):
    small, large = more.encode_plain(["nebelbank", "NebelBank"])
    assert small == large == [more.pieces().index("▁nebelbank")]


def test_pieces_are_split_as_they_stand_inside_a_text(known):
    pieces = known.pieces()
    words = ["▁the", "the", "nebel", "▁nebel"]
    for word, ids in zip(words, known.split_pieces(words), strict=True):
        assert "".join(pieces[number] for number in ids) == word


def test_a_vector_stays_where_new_pieces_take_the_place_of_old_ones(encoder, more):
    extended = extend_vocabulary(encoder, more)
    texts = ["Nebelbank", "nebelbank zwielicht", "the fog"]
    assert any(
        len(new) < len(old)
        for old, new in zip(
            encoder.tokenizer.encode_plain(texts), more.encode_plain(texts), strict=True
        )
    )
    np.testing.assert_allclose(extended.encode(texts), encoder.encode(texts), atol=1e-5)
    old, new = (it.weights()["embedding/word"] for it in (encoder, extended))
    np.testing.assert_array_equal(new[: len(old)], old)


def test_what_cannot_be_extended(encoder, known, tmp_path):
    write_wordpiece(tmp_path, "[PAD] [UNK] [CLS] [SEP] cat".split())
    pieces = read_checkpoint_tokenizer(tmp_path)
    with pytest.raises(InputError, match="unigram vocabulary.*Received: wordpiece"):
        extend_unigram(known, pieces)
    with pytest.raises(InputError, match="Received: {'num_layers': 2"):
        extend_vocabulary(tiny_encoder(known, num_layers=2), known)
    other = train_unigram(texts_of(), 60, at_most=True)
    with pytest.raises(InputError, match="begin with the encoder's"):
        extend_vocabulary(encoder, other)
