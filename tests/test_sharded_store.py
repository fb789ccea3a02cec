import numpy as np
import pytest
from tiny_data import HashGuide, WordEncoder, sentences, triples

import keras_msd.data.store as store_module
from keras_msd.checks import InputError
from keras_msd.data import GuideStore, PairBatches, ShardedStore
from keras_msd.data.store import shard_name, shard_of


def test_vectors_are_those_of_the_guide(tmp_path):
    guide = HashGuide()
    store = ShardedStore(guide, tmp_path, shards=3)
    texts = ["b", "a", "", "b", "ü 中 😀", "a", *sentences(60)]
    found = store.targets(texts)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [guide.vector(text) for text in texts])
    assert sorted(guide.asked) == sorted(set(texts)), "each distinct sentence once"
    assert len(store) == 64 == sum(map(len, store.stores))
    assert min(map(len, store.stores)) > 10, "hashes deal out evenly"
    assert store.targets([]).shape == (0, 4)


def test_a_row_stays_that_of_its_sentence(tmp_path):
    texts = sentences(300)
    first = ShardedStore(HashGuide(), tmp_path, shards=4)
    first.build(texts[:200])
    rows = first.rows(texts[:200])
    assert len(set(rows.tolist())) == 200
    guide = HashGuide()
    second = ShardedStore(guide, tmp_path)
    assert len(second.stores) == 4
    found = second.targets(texts)
    assert sorted(guide.asked) == sorted(texts[200:])
    np.testing.assert_array_equal(second.rows(texts[:200]), rows)
    np.testing.assert_array_equal(second.vectors(rows[[5, 0, 5]]), found[[5, 0, 5]])


def test_each_shard_is_a_store_of_its_own_sentences(tmp_path, monkeypatch):
    """What is written apart, in chunks of the same texts, is the same bytes."""
    monkeypatch.setattr(store_module, "CHUNK_SENTENCES", 50)
    texts = [*sentences(400), *sentences(100)]
    whole = ShardedStore(HashGuide(), tmp_path / "whole", shards=3)
    whole.build(text for text in texts)
    for shard, store in enumerate(whole.stores):
        own = [text for text in texts if shard_of(text, 3) == shard]
        name = shard_name(shard, 3)
        apart = GuideStore(HashGuide(), tmp_path / "apart" / name, id=store.id)
        for start in range(0, len(own), 50):
            apart.build(own[start : start + 50])
        for file in ("store.json", "vectors.f32", "keys.b16", "blocks.log"):
            there = (tmp_path / "whole" / name / file).read_bytes()
            assert (apart.folder / file).read_bytes() == there, file
    again = ShardedStore(guide := HashGuide(), tmp_path / "apart")
    np.testing.assert_array_equal(again.targets(texts), whole.targets(texts))
    assert guide.asked == []


def test_batches_are_those_of_one_store(tmp_path):
    pairs = triples({"de": 30, "fr": 20})
    stores = (
        GuideStore(HashGuide(), tmp_path / "one"),
        ShardedStore(HashGuide(), tmp_path / "many", shards=5),
    )
    one, many = (
        PairBatches(pairs, WordEncoder(), {"teacher": (store, "source")}, batch_size=8)
        for store in stores
    )
    for index in range(len(one)):
        (x, y), (other_x, other_y) = one[index], many[index]
        np.testing.assert_array_equal(y["teacher"], other_y["teacher"])
        for name in x:
            np.testing.assert_array_equal(x[name], other_x[name])


def test_a_damaged_shard_is_computed_anew(tmp_path):
    texts = sentences(100)
    ShardedStore(HashGuide(), tmp_path, shards=2).build(texts)
    path = tmp_path / shard_name(1, 2) / "vectors.f32"
    content = bytearray(path.read_bytes())
    content[9] ^= 1
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged"):
        store = ShardedStore(guide := HashGuide(), tmp_path)
    found = store.targets(texts)
    assert sorted(guide.asked) == sorted(it for it in texts if shard_of(it, 2) == 1)
    np.testing.assert_array_equal(found, [guide.vector(text) for text in texts])


def test_what_a_folder_must_be(tmp_path):
    ShardedStore(HashGuide(), tmp_path / "a", shards=2)
    with pytest.raises(InputError, match=r"shards=3.*has 2"):
        ShardedStore(HashGuide(), tmp_path / "a", shards=3)
    with pytest.raises(InputError, match="another guide"):
        ShardedStore(HashGuide(fingerprint="other"), tmp_path / "a")
    GuideStore(HashGuide(), tmp_path / "b")
    with pytest.raises(InputError, match="one store"):
        ShardedStore(HashGuide(), tmp_path / "b")
    with pytest.raises(InputError, match="`shards` must be at least 1"):
        ShardedStore(HashGuide(), tmp_path / "c", shards=0)
