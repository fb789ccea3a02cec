"""Small inputs that users reported, where the folder with them is there."""

from pathlib import Path

import numpy as np
import pytest

import keras_msd as msd

CASES = Path(__file__).parents[2] / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not there")


def ids(name, *texts):
    return msd.tokenizers.read_checkpoint_tokenizer(CASES / name).encode(texts)


def encoded(name, *texts):
    return msd.load_encoder(CASES / name).encode(list(texts))


def test_tokenizers_give_the_ids_of_their_own_library():
    assert ids("02", "hello 12") == [[0, 5, 4, 19, 19, 2]]
    assert ids("03", "hello world") == [[5, 7]]
    with pytest.raises(msd.InputError, match="BertJapaneseTokenizer"):
        msd.load_encoder(CASES / "05" / "model")
    large, small = ids("07/model", "The Cat sleeps.", "the cat sleeps.")
    assert large == small and len(large) == 13


def test_folders_of_sentence_transformers_are_read():
    np.testing.assert_allclose(np.linalg.norm(encoded("01/model", "the cat")), 1, 1e-6)
    np.testing.assert_array_equal(*encoded("08/model", "hello", "hello\n"))
    # "hello" is one token of the table.
    from safetensors.numpy import load_file

    [table] = load_file(next((CASES / "20").rglob("*.safetensors"))).values()
    row = table[5].astype(np.float32)
    given = encoded("20/model", "hello")[0]
    np.testing.assert_allclose(given, row / np.linalg.norm(row), atol=1e-6)
