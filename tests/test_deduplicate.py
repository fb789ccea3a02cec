import numpy as np
import pytest

from keras_msd.data.deduplicate import Deduplicator
from keras_msd.files import text_hash


def repeats(keys, tmp_path, partition_rows):
    finder = Deduplicator(tmp_path / "parts", partition_rows)
    for key in keys:
        finder.add(key)
    finder.write_repeats(tmp_path / "repeats")
    left = [path for path in (tmp_path / "parts").rglob("*") if path.is_file()]
    assert not left, "partitions are deleted"
    return np.fromfile(tmp_path / "repeats", np.uint8)


@pytest.mark.parametrize("partition_rows", [7, 100, 10_000])
def test_against_a_set(tmp_path, partition_rows):
    generator = np.random.default_rng(1)
    keys = [text_hash(b"%d" % n) for n in generator.integers(0, 1500, 3000)]
    keys += [keys[5]] * 300  # one line very often
    seen, expected = set(), []
    for key in keys:
        expected.append(key in seen)
        seen.add(key)
    assert 1000 < sum(expected) < 3000
    found = repeats(keys, tmp_path, partition_rows)
    assert found.tolist() == expected


def test_keys_that_share_their_first_half(tmp_path):
    keys = [b"\0" * 8 + n.to_bytes(8) for n in (1, 2, 3, 2, 1, 4)]
    assert repeats(keys, tmp_path, 2).tolist() == [0, 0, 0, 1, 1, 0]


def test_nothing_added(tmp_path):
    assert repeats([], tmp_path, 4).tolist() == []


def test_borders_between_texts_count():
    assert text_hash(b"ab", b"c") != text_hash(b"a", b"bc")
    assert text_hash(b"ab", b"c") == text_hash(b"ab", b"c")
    assert len(text_hash(b"")) == 16
