"""Corpora and folders where fsspec reaches them, beside the same ones on disk."""

import gzip
import pickle
import sys
from pathlib import Path

import fsspec
import pytest

import keras_msd as msd
from keras_msd import InputError
from keras_msd.data import TextTable, read_pairs
from keras_msd.io.remote import (
    RemotePath,
    as_path,
    delete,
    fetch_folder,
    write_file,
    write_folder,
)

FILES = {
    "a.en-de.tsv": b"A house.\tEin Haus.\nA  dog.\tEin Hund.\n",
    "b.en-fr.tsv.gz": gzip.compress(b"A house.\tUne maison.\n" * 2000),
    "c.en-de.csv": b"en,de\nTea.,Tee.\n",
    "d.en": b"A cat.\n",
    "d.it": b"Un gatto.\n",
    "f.jsonl": b'{"en": "Bread.", "es": "Pan."}\n',
    "g.de-fr.tsv": b"Brot.\tPain.\n",
}


@pytest.fixture
def bucket():
    """Return a new place in memory."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    return "memory://bucket"


def put(bucket: str, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        write_file(RemotePath(f"{bucket}/{name}"), content)


def contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_folder_is_read_as_on_disk(bucket, tmp_path):
    put(f"{bucket}/pairs", FILES)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    here, there = read_pairs(tmp_path), read_pairs(f"{bucket}/pairs")
    assert [file.name for file in here.files] == [file.name for file in there.files]
    assert len(here.files) == 6 and {*here.languages} > {"de", "fr", "it", "de-fr"}
    assert list(here) == list(there) and len(list(there)) == 2006
    assert here.digest() == there.digest()
    tables = [
        TextTable.build(pairs, tmp_path / name)
        for pairs, name in ((here, "here"), (there, "there"))
    ]
    assert contents(tables[0].folder) == contents(tables[1].folder)


def test_files_patterns_and_lists(bucket):
    put(bucket, FILES)
    one = read_pairs(f"{bucket}/a.en-de.tsv")
    assert [pair.target for pair in one] == ["Ein Haus.", "Ein Hund."]
    matched = read_pairs(f"{bucket}/*.en-*.tsv*")
    assert [file.name for file in matched.files] == ["a.en-de.tsv", "b.en-fr.tsv.gz"]
    both = read_pairs([f"{bucket}/g.de-fr.tsv", f"{bucket}/d.en"], language=None)
    assert both.languages == ["de-fr", "it"]
    again = pickle.loads(pickle.dumps(both))
    assert list(again) == list(both)


def test_what_is_not_there(bucket):
    with pytest.raises(InputError, match="memory://bucket/no.en-de.tsv` does not"):
        read_pairs(f"{bucket}/no.en-de.tsv")
    put(bucket, {"bad.en-de.tsv": b"only one column\n"})
    with pytest.raises(InputError, match="memory://bucket/bad.en-de.tsv`, line 1"):
        list(read_pairs(f"{bucket}/bad.en-de.tsv"))


def test_what_reaches_a_place_is_named(monkeypatch):
    known = sys.modules["fsspec.registry"]._registry
    for protocol, module, extra in (("s3", "s3fs", "s3"), ("gs", "gcsfs", "gcs")):
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.delitem(known, protocol, raising=False)
        with pytest.raises(InputError, match=rf"\.\[{extra}\]"):
            read_pairs(f"{protocol}://bucket/a.en-de.tsv")
    with pytest.raises(InputError, match="nowhere://a.*cannot be reached"):
        read_pairs("nowhere://a/b.en-de.tsv")


def test_names_are_taken_apart_as_those_of_paths():
    path = as_path("gs://bucket/folder/a.en-de.tsv.gz")
    assert isinstance(path, RemotePath) and path.suffix == ".gz"
    assert str(path.parent / "b.tsv") == "gs://bucket/folder/b.tsv"
    assert str(path.with_name("x")) == "gs://bucket/folder/x"
    assert path == as_path(str(path)) and hash(path) == hash(as_path(path))
    again = pickle.loads(pickle.dumps(path))
    assert again == path and type(again) is RemotePath
    assert as_path("file:///data/a") == Path("/data/a")


def test_a_table_there_and_back(bucket, tmp_path):
    pairs = msd.data.Pairs.from_list([("A house.", "Ein Haus.", "de")])
    table = TextTable.build(pairs, tmp_path / "here")
    with write_folder(f"{bucket}/table") as folder:
        for name, content in contents(table.folder).items():
            (folder / name).write_bytes(content)
    back = fetch_folder(f"{bucket}/table", tmp_path / "back")
    assert contents(back) == contents(table.folder)
    assert list(TextTable.open(back)) == list(pairs)
    with pytest.raises(InputError, match="must not exist"):
        fetch_folder(f"{bucket}/table", tmp_path / "back")
    with pytest.raises(InputError, match="holds no file"):
        fetch_folder(f"{bucket}/nothing", tmp_path / "new")
    with pytest.raises(InputError, match="must be an address"):
        fetch_folder("table", tmp_path / "new")
    delete(as_path(f"{bucket}/table"))
    assert not as_path(f"{bucket}/table").exists()
    delete(as_path(f"{bucket}/table"))


def test_descriptions_go_last_and_nothing_after_an_error(bucket, monkeypatch):
    sent = []
    system = fsspec.filesystem("memory")
    put_file = type(system).put_file

    def seen(self, source, name, **options):
        sent.append(name.rpartition("/")[2])
        return put_file(self, source, name, **options)

    monkeypatch.setattr(type(system), "put_file", seen)
    with write_folder(f"{bucket}/one") as folder:
        (folder / "inner").mkdir()
        for name in ("a.json", "inner/b.json", "z.values", "inner/y.values"):
            (folder / name).write_text(name)
    assert sorted(sent[:2]) == ["y.values", "z.values"] and len(sent) == 4
    with pytest.raises(RuntimeError), write_folder(f"{bucket}/two") as folder:
        (folder / "a").write_text("a")
        raise RuntimeError
    assert not as_path(f"{bucket}/two").exists()


def test_a_folder_on_disk_is_whole_or_absent(tmp_path):
    with pytest.raises(RuntimeError), write_folder(tmp_path / "a") as folder:
        (folder / "x").write_text("x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with write_folder(str(tmp_path / "a")) as folder:
        (folder / "x").write_text("x")
    assert contents(tmp_path) == {"a/x": b"x"}
    delete(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
