"""The pipeline beside the local builders, with Beam where it is installed."""

import gzip
import random
import subprocess
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest
from tiny_data import HashGuide, WordTokenizer, sentences

from keras_msd import InputError
from keras_msd.beam import clean_texts, write_store, write_table
from keras_msd.beam import pipeline as work
from keras_msd.data import (
    Cleaning,
    Pairs,
    PairTable,
    ShardedStore,
    TextTable,
    fetch_folder,
    read_pairs,
    tables,
)
from keras_msd.data.store import META
from keras_msd.data.tables import TextOptions
from keras_msd.io.remote import as_path
from keras_msd.tokenizers import train_unigram

CHUNK = 512  # rows
ROOT = Path(__file__).resolve().parents[1]
OPTIONS = [
    {},
    {"limit_per_language": 400, "seed": 3},
    {"limit_per_file": 550, "dirty_rows": 2, "cleaning": Cleaning(min_chars=5)},
    {"limit_per_language": 90, "temperature": 1.0},
]


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    with pytest.MonkeyPatch.context() as patch:
        for module in (tables, work):
            patch.setattr(module, "CHUNK", CHUNK)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, small_chunks):
    """Return files of more than a chunk, with repeats within and across them."""
    folder = tmp_path_factory.mktemp("corpus")
    names = "a.en-de.tsv", "b.en-de.tsv.gz", "c.en-fr.tsv", "d.de-fr.tsv", "e.en-de.tsv"
    generator = random.Random(0)
    known = sentences(CHUNK, seed=1, longest=6)
    for number, name in enumerate(names):
        texts = sentences(CHUNK + 90 if number < 2 else 70, seed=number, longest=6)
        texts += generator.sample(known, 50) + ["", "e\u0301  \u200bx", "e\u0301 x"]
        generator.shuffle(texts)
        lines = [f"{text}\t{text[::-1]}" for text in texts]
        if number == 4:
            lines = ["\t"] * 3  # nothing of it passes
        content = "\n".join(lines).encode()
        if name.endswith(".gz"):
            content = gzip.compress(content)
        (folder / name).write_bytes(content)
    (folder / "z.en-fr.tsv").write_text("one column\nA cat.\tUn chat.\nA dog.\tUn c.\n")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def grouped(items, generator):
    """Return what a shuffle gives: keys and values in any order."""
    found = defaultdict(list)
    items = list(items)
    generator.shuffle(items)
    for key, value in items:
        found[key].append(value)
    return list(found.items())


def by_hand(pairs, options):
    """Return plan and kept chunks, in any order."""
    generator = random.Random(7)
    read = [
        it for item in enumerate(pairs.files) for it in work.read_file(item, options)
    ]
    books = [it for it in read if isinstance(it[1], work.Book)]
    chunks = [it for it in read if isinstance(it[1], work.Chunk)]
    assert len(books) + len(chunks) == len(read) and len(chunks) > len(books)
    hashed = (it for chunk in chunks for it in work.hashed(chunk))
    repeats = defaultdict(list)
    for item in grouped(hashed, generator):
        for place, some in work.repeats(item):
            repeats[place].append(some)
    distinct = [
        work.without_repeats((place, {"chunk": [chunk], "repeats": repeats[place]}))
        for place, chunk in chunks
    ]
    generator.shuffle(books)
    generator.shuffle(distinct)
    plan = work.make_plan(options, books, [work.size_of(item) for item in distinct])
    kept = [it for item in distinct for it in work.kept(item, plan, options)]
    return plan, kept


def pairs_of(corpus, options):
    names = sorted(corpus.iterdir())
    if "dirty_rows" not in options:
        names = [path for path in names if not path.name.startswith("z")]
    return read_pairs(names)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_parts_make_the_table_of_the_local_builder(corpus, tmp_path, options):
    pairs = pairs_of(corpus, options)
    words = WordTokenizer()
    local = PairTable.build(pairs, words, tmp_path / "a", max_length=8, **options)
    plan, kept = by_hand(pairs, TextOptions(**options))
    given = {"tokenizer": words, "max_length": 8}
    parts = [
        work.write_part(item, folder=str(tmp_path / "parts"), **given) for item in kept
    ]
    place = work.write_parted_table(plan, parts, folder=str(tmp_path / "b"), **given)
    expected, found = contents(local.folder), contents(Path(place))
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name] == expected[name], name
    assert len(PairTable.open(place)) == len(local) > 100


def test_shards_are_those_of_the_local_builder(corpus, tmp_path):
    options = OPTIONS[3]
    pairs = pairs_of(corpus, options)
    table = TextTable.build(pairs, tmp_path / "texts", **options)
    local = ShardedStore(HashGuide(), tmp_path / "a", shards=3)
    local.build(text for chunk in table.chunks("target") for text in chunk)
    _, kept = by_hand(pairs, TextOptions(**options))
    dealt = (it for item in kept for it in work.dealt(item, "target", 3))
    for item in grouped(dealt, random.Random(1)):
        work.write_shard(item, HashGuide, str(tmp_path / "b"), 3, run="r")
    check_store(tmp_path / "a", tmp_path / "b", count=3)


def check_store(local: Path, other: Path, count: int) -> None:
    expected, found = contents(local), contents(other)
    assert found.keys() == expected.keys()
    same = {name for name in expected if found[name] == expected[name]}
    kept = {name for name in expected if name.endswith((".f32", ".b16"))}
    assert kept <= same and len(kept) == 2 * count
    differ = {name.rpartition("/")[2] for name in expected.keys() - same}
    assert differ <= {META, "blocks.log"}  # which have the id


def test_beam_is_asked_for_by_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(InputError, match=r"\.\[beam\]"):
        clean_texts(None, Pairs.from_list([("A house.", "Ein Haus.", "de")]))


def test_workers_import_neither_keras_nor_tensorflow():
    code = (
        "import sys, keras_msd.beam.__main__\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    words = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    found = set(words.split())
    assert "keras_msd" in found
    assert found & {"keras", "tensorflow", "jax", "scipy", "pydantic", "typer"} == set()


@pytest.mark.parametrize("place", ["disk", "memory://beam"])
def test_beam(corpus, tmp_path, place):
    beam = pytest.importorskip("apache_beam")
    tokenizer = train_unigram(sentences(300, longest=6), vocabulary_size=200)
    options = OPTIONS[3]
    pairs = pairs_of(corpus, options)
    where = str(tmp_path / "beam") if place == "disk" else place
    for name in ("table", "store"):
        as_path(where).exists() and work.delete_parts("", f"{where}/{name}")
    with beam.Pipeline() as pipeline:
        texts = clean_texts(pipeline, pairs, **options)
        write_table(texts, tokenizer, f"{where}/table", max_length=8)
        write_store(texts, partial(HashGuide, 4), f"{where}/store", shards=3)
    local = PairTable.build(pairs, tokenizer, tmp_path / "a", max_length=8, **options)
    store = ShardedStore(HashGuide(), tmp_path / "b", shards=3)
    store.build(text for chunk in local.texts.chunks("source") for text in chunk)
    names = {path.name for path in as_path(where).iterdir()}
    assert names == {"table", "store"}, "parts are gone"
    there = {name: Path(f"{where}/{name}") for name in names}
    if place != "disk":
        there = {
            name: fetch_folder(f"{where}/{name}", tmp_path / name) for name in names
        }
    assert contents(there["table"]) == contents(local.folder)
    check_store(store.folder, there["store"], count=3)
    with beam.Pipeline() as pipeline:
        texts = clean_texts(pipeline, pairs)
        with pytest.raises(InputError, match="must not exist"):
            write_table(texts, tokenizer, f"{where}/table")
        with pytest.raises(InputError, match="must not exist"):
            write_store(texts, HashGuide, f"{where}/store")
