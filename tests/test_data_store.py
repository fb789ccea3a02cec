"""Stored teacher embeddings, in one folder or in shards."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from damages import cut, flip
from tiny_data import HashGuide, sentences

import keras_msd.data.store as store_module
from keras_msd.checks import InputError
from keras_msd.data import GuideStore, ShardedStore
from keras_msd.data.store import shard_name, shard_of
from keras_msd.io import files


@pytest.mark.parametrize("make", [GuideStore, partial(ShardedStore, shards=3)])
def test_targets_in_the_order_asked(tmp_path, make):
    guide = HashGuide()
    store = make(guide, tmp_path)
    texts = ["b", "a", "", "b", "ü 中 😀", "a", *sentences(60)]
    found = store.targets(texts)
    assert found.dtype == np.float32 and found.shape == (66, 4)
    np.testing.assert_array_equal(found, [guide.vector(text) for text in texts])
    assert sorted(guide.asked) == sorted(set(texts)), "each distinct sentence once"
    assert len(store) == 64
    assert store.targets([]).shape == (0, 4)


def test_later_runs_compute_only_what_is_missing(tmp_path):
    texts = sentences(300)
    first = GuideStore(HashGuide(), tmp_path)
    first.build(texts[:200])
    rows = first.rows(texts[:200])
    guide = HashGuide()
    second = GuideStore(guide, tmp_path)
    found = second.targets(texts)
    assert sorted(guide.asked) == sorted(texts[200:])
    np.testing.assert_array_equal(found, [guide.vector(text) for text in texts])
    np.testing.assert_array_equal(second.rows(texts[:200]), rows)
    np.testing.assert_array_equal(second.vectors(rows[[5, 0, 5]]), found[[5, 0, 5]])
    # A store that was open before sees what the other one added.
    np.testing.assert_array_equal(first.targets(texts), found)


def test_chunks_are_full(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "CHUNK_SENTENCES", 50)
    sizes = []

    class Sizes(HashGuide):
        def encode(self, texts):
            sizes.append(len(texts))
            return super().encode(texts)

    texts = sentences(90)
    GuideStore(Sizes(), tmp_path).build(text for text in texts for _ in range(7))
    assert sum(sizes) == 90 and len(sizes) == 2 and min(sizes) >= 40 - 8
    monkeypatch.setattr(store_module, "CHUNK_BYTES", 4 * 4 * 3)
    GuideStore(Sizes(), tmp_path / "wide").build(["a", "b", "c", "d", "e"])
    assert sizes[2:] == [3, 2], "wide vectors come in smaller chunks"


def test_one_guide_a_folder(tmp_path):
    GuideStore(HashGuide(), tmp_path)
    with pytest.raises(InputError, match="another guide.*'other'.*'hash'"):
        GuideStore(HashGuide(fingerprint="other"), tmp_path)
    with pytest.raises(InputError, match="another guide.*dim 5.*4"):
        GuideStore(HashGuide(dim=5), tmp_path)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_numbers_that_are_not_finite(tmp_path, value):
    class Broken(HashGuide):
        def encode(self, texts):
            vectors = super().encode(texts).astype(np.float64)
            vectors[[text == "bad one" for text in texts], 2] = value
            return vectors

    store = GuideStore(Broken(), tmp_path)
    with pytest.raises(InputError, match="must be finite.*'bad one'"):
        store.targets(["good", "bad one", "fine"])
    guide = HashGuide()
    GuideStore(guide, tmp_path).targets(["good", "fine", "bad one"])
    assert guide.asked == ["bad one"], "what was right is kept"


def test_wrong_shape_and_wrong_sentences(tmp_path):
    class Narrow(HashGuide):
        def encode(self, texts):
            return super().encode(texts)[:, 1:]

    with pytest.raises(InputError, match=r"shape \(2, 3\) for 2 sentences, dim=4"):
        GuideStore(Narrow(), tmp_path).targets(["a", "b"])
    store = GuideStore(HashGuide(), tmp_path)
    with pytest.raises(InputError, match="list of sentences"):
        store.targets("a sentence")


def test_the_place_of_a_wrong_sentence_in_a_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "CHUNK_SENTENCES", 50)
    for wrong, match in (
        (7, r"7 \(int\) at position 120"),
        ("\ud800", "position 120: "),
    ):
        texts = [*sentences(120), wrong]
        with pytest.raises(InputError, match=match):
            GuideStore(HashGuide(), tmp_path).build(iter(texts))


def swap(path):
    other = GuideStore(HashGuide(), path.parent.with_name("other"))
    other.build(sentences(150, seed=9))
    path.write_bytes((other.folder / path.name).read_bytes())


@pytest.mark.parametrize("name", ["vectors.f32", "keys.b16", "blocks.log"])
@pytest.mark.parametrize("damage", [flip, cut, swap])
def test_a_damaged_store_gives_the_same_vectors(tmp_path, name, damage):
    """All of it; what was damaged is computed again, with one warning."""
    folder, texts = tmp_path / "store", sentences(150)
    store = GuideStore(HashGuide(), folder)
    store.build(texts[:100])
    store.build(texts[100:])
    damage(folder / name)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        store = GuideStore(guide := HashGuide(), folder)
        vectors = store.targets(texts)
    messages = [str(it.message) for it in found]
    assert all("damaged: its vectors are computed again" in it for it in messages)
    assert len(messages) > 0 or (name, damage) == ("blocks.log", cut)
    assert len(guide.asked) in (50, 100, 150)
    np.testing.assert_array_equal(vectors, [guide.vector(text) for text in texts])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = GuideStore(again := HashGuide(), folder)
        np.testing.assert_array_equal(whole.targets(texts), vectors)
    assert again.asked == [] and len(whole) == 150


@pytest.mark.parametrize(
    "content",
    [b"", b'{"dim": 4, "finge', b"[]", b'{"version": 1}', b" " * (files.JSON.most + 1)],
    ids=range(5),
)
def test_a_store_without_its_name(tmp_path, content):
    """Nobody has a copy of it: what repairs it is to compute the vectors anew."""
    guide, repair = HashGuide(), "Delete the folder; it is built again"
    GuideStore(guide, tmp_path).targets(["a"])
    (tmp_path / "store.json").write_bytes(content)
    with pytest.raises(InputError, match=repair) as caught:
        GuideStore(guide, tmp_path)
    assert "copy" not in str(caught.value)
    shutil.rmtree(tmp_path)
    assert GuideStore(guide, tmp_path).targets(["a"]).shape == (1, 4)


def start(folder, script, **options):
    """Start a process that knows `folder` and the stand-ins of these tests."""
    known = """
    import os, resource, signal, sys
    from tiny_data import HashGuide, sentences
    from keras_msd.checks import InputError
    from keras_msd.data import GuideStore, store
    folder = sys.argv[1]
    """
    code = textwrap.dedent(known) + textwrap.dedent(script)
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    command = [sys.executable, "-c", code, folder]
    return subprocess.Popen(command, env=environment, **options)


def test_a_full_disk_keeps_what_was_computed(tmp_path):
    script = """
    store = GuideStore(HashGuide(), folder)
    store.build(sentences(100))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1616, 1616))
    try:
        store.build(sentences(2000, seed=2))
    except (InputError, OSError) as error:
        print(error)
    """
    said, _ = start(tmp_path, script, stdout=subprocess.PIPE).communicate()
    assert f"`{tmp_path / 'vectors.f32'}`".encode() in said and b"Free space" in said
    store = GuideStore(guide := HashGuide(), tmp_path)
    store.targets(sentences(100))
    assert guide.asked == [] and len(store) >= 100
    texts = sentences(2000, seed=2)
    expected = [guide.vector(text) for text in texts]
    np.testing.assert_array_equal(store.targets(texts), expected)


def test_a_finished_store_needs_no_writing():
    """As on read-only media: a user without rights reads it."""
    script = """
    import mmap, secrets, keras_msd.progress, numpy.random  # before the rights go
    os.chdir(folder)
    if os.geteuid() == 0:
        os.setegid(65534), os.seteuid(65534)
    guide = HashGuide()
    assert GuideStore(guide, "store").targets(["a", "b"]).shape == (2, 4)
    assert not guide.asked
    try:
        GuideStore(guide, "store").targets(["c"])
    except OSError as error:
        print("refused", error)
    """
    with tempfile.TemporaryDirectory() as place:  # where that user may look
        folder = Path(place) / "store"
        GuideStore(HashGuide(), folder).targets(["a", "b"])
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        folder.parent.chmod(0o755)
        said, _ = start(place, script, stdout=subprocess.PIPE).communicate()
        folder.chmod(0o755)
    assert b"refused" in said


PROCESS = """
def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)

class Guide(HashGuide):
    def encode(self, texts):
        if len(self.asked) == 100:
            THEN
        return super().encode(texts)

store.CHUNK_SENTENCES = 50
GuideStore(Guide(), folder).build(sentences(200))
"""


@pytest.mark.parametrize("then", ["die()", "os.fsync = die"])
def test_killed_before_and_in_the_middle_of_a_commit(tmp_path, then):
    assert start(tmp_path, PROCESS.replace("THEN", then)).wait() == -signal.SIGKILL
    size = (tmp_path / "vectors.f32").stat().st_size
    assert size == 16 * (150 if "fsync" in then else 100), "vectors without keys"
    guide = HashGuide()
    store = GuideStore(guide, tmp_path)
    assert len(store) == 100
    texts = sentences(200)
    expected = [guide.vector(text) for text in texts]
    np.testing.assert_array_equal(store.targets(texts), expected)
    assert sorted(guide.asked) == sorted(texts[100:])


def test_two_processes_write_one_store(tmp_path):
    both = [start(tmp_path, PROCESS.replace("THEN", "pass")) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    guide = HashGuide()
    store = GuideStore(guide, tmp_path)
    assert len(store) == 200
    texts = sentences(200)
    expected = [guide.vector(text) for text in texts]
    np.testing.assert_array_equal(store.targets(texts), expected)
    assert guide.asked == []


def test_each_shard_is_a_store_of_its_own_sentences(tmp_path, monkeypatch):
    """What is written apart, in chunks of the same texts, is the same bytes."""
    monkeypatch.setattr(store_module, "CHUNK_SENTENCES", 50)
    texts = [*sentences(400), *sentences(100)]
    whole = ShardedStore(HashGuide(), tmp_path / "whole", shards=3)
    whole.build(text for text in texts)
    assert min(map(len, whole.stores)) > 50, "hashes deal out evenly"
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


def test_what_a_folder_must_be(tmp_path):
    ShardedStore(HashGuide(), tmp_path / "a", shards=2)
    with pytest.raises(InputError, match=r"shards=3.*has 2"):
        ShardedStore(HashGuide(), tmp_path / "a", shards=3)
    GuideStore(HashGuide(), tmp_path / "b")
    with pytest.raises(InputError, match="one store"):
        ShardedStore(HashGuide(), tmp_path / "b")
    with pytest.raises(InputError, match="`shards` must be at least 1"):
        ShardedStore(HashGuide(), tmp_path / "c", shards=0)
