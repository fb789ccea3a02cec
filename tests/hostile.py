"""What the tests of hostile files share."""

import tracemalloc

import pytest

from keras_msd.checks import InputError

MIB = 1 << 20
BERT = {
    "model_type": "bert", "vocab_size": 5, "hidden_size": 4, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 8, "type_vocab_size": 2,
    "max_position_embeddings": 16,
}  # fmt: skip


def refused(read, match):
    """Return with which message, which must match, `read` is refused."""
    with pytest.raises(InputError, match=f"(?s){match}") as caught:
        read()
    return str(caught.value)


def small(read, match, most=64 * MIB):
    """`read` is refused before Python has taken `most` bytes."""
    tracemalloc.start()
    try:
        refused(read, match)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def sparse(path, size):
    """Write a file of zeros that takes no room on most disks."""
    with open(path, "wb") as handle:
        handle.truncate(size)
    return path
