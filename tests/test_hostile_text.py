"""Hostile JSON, TOML and TMX files: an error, soon and small."""

import gzip
import json
import sqlite3

import pytest
from hostile import MIB, refused, small, sparse

from keras_msd.data import read_inference, read_pairs
from keras_msd.data.readers import tmx
from keras_msd.io import files
from keras_msd.io.files import atomic_path, read_json, read_toml
from keras_msd.recipes import load_recipe

pytestmark = pytest.mark.usefixtures("no_graphs")

DEEP = 200_000
DIGITS = b"1" * 5000


def made(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    return tmp_path / name


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.json", b"[" * DEEP),
        ("x.json", b'{"a":' * DEEP + b"1" + b"}" * DEEP),
        ("x.json", b"[" * 200 + b"]" * 200),
        ("x.json", b'{"a": ' + DIGITS + b"}"),
        ("x.json", b'{"a": "\xff"}'),
        ("x.toml", b"a = " + b"[" * DEEP),
        ("x.toml", b"a = " + b"{a = " * DEEP),
        ("x.toml", b".".join([b"a"] * 200) + b" = 1"),
        ("x.toml", b"a = " + DIGITS),
        ("x.toml", b"a = '\xff'"),
        ("x.toml", b"[" + b".".join([b"a"] * DEEP) + b"]"),
    ],
)
def test_settings_that_cannot_be_read(name, data, tmp_path):
    path = made(tmp_path, name, data)
    read = read_json if name.endswith("json") else read_toml
    assert len(refused(lambda: read(path), name)) < 500
    if name.endswith("toml"):
        refused(lambda: load_recipe(path), name)


def test_settings_that_are_too_large(tmp_path):
    path = sparse(tmp_path / "x.json", files.JSON.most + 1)
    small(lambda: read_json(path), "x.json`.*33,554,432.*33,554,433")
    (path := tmp_path / "x.toml").write_bytes(b"#" * (files.TOML.most + 1))
    small(lambda: read_toml(path), "x.toml`.*262,144")


def test_an_override_too_deep_is_a_mistake():
    changes = {".".join("a" * 5000): 1}
    refused(lambda: load_recipe("demo", overrides=changes), "--set.*5,000")


TMX = b'<?xml version="1.0"?><tmx><body>%s</body></tmx>'
UNIT = b"<tu><tuv xml:lang='en'><seg>a</seg></tuv>%s</tu>"
VARIANT = b"<tuv xml:lang='de'><seg>b</seg></tuv>"


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b'<?xml version="1.0" encoding="zip"?><tmx/>', "encoding.*UTF-8"),
        (b'<?xml version="1.0" encoding="no-such"?><tmx/>', "encoding.*UTF-8"),
        (b"<tmx>\xff</tmx>", "encoding.*UTF-8"),
        (TMX % (b"<a>" * 200), "elements inside each other.* 64"),
        (TMX % (UNIT % (b"<a>" * 200)), "elements inside each other.* 64"),
        (TMX % (UNIT % (VARIANT * 50_000)), "one unit.*1,048,576"),
        (TMX % (UNIT % (b"<note>" + b"x" * 2 * MIB)), "one unit.*1,048,576"),
        (TMX % (b"<tu a='" + b"x" * 3 * MIB), "one unit.*1,048,576"),
        (TMX % (b"<!--" + b"x" * 3 * MIB), "one unit.*1,048,576"),
        (
            b"<!DOCTYPE tmx SYSTEM 'tmx14.dtd'>"
            + TMX[21:] % (UNIT % b"<tuv><seg>caf&eacute;</seg></tuv>"),
            "undefined entity &eacute;",
        ),
    ],
)
def test_tmx(data, match, tmp_path):
    path = made(tmp_path, "x.en-de.tmx", data)
    assert refused(lambda: list(read_pairs(path)), match).startswith(f"`{path}`, line")


@pytest.mark.parametrize("what", [b"x", b"<a>", b"<a/>"])
def test_packed_tmx_takes_no_memory(what, tmp_path, monkeypatch):
    monkeypatch.setattr(tmx, "UNIT", files.UNIT._replace(most=1 << 16))
    data = gzip.compress(TMX % (UNIT % (what * (8 * MIB // len(what)))))
    path = made(tmp_path, "x.en-de.tmx.gz", data)
    small(lambda: list(read_pairs(path)), "line 1", 8 * MIB)


def test_rows_of_inference_lose_them_too(tmp_path):
    line = {"premise": "a\0b", "hypothesis": "\u202ec", "label": 1}
    path = made(tmp_path, "x.jsonl", json.dumps(line).encode())
    assert read_inference(path).rows == [(1, "a b", "c")]


def write_all(_):
    with open("/dev/full", "wb") as handle:
        handle.write(b"x")


def write_as_tensorflow_does(_):
    raise RuntimeError("variables_temp: No space left on device [Op:SaveV2]")


def write_as_sqlite_does(path):
    base = sqlite3.connect(path)
    try:
        base.execute("pragma max_page_count = 2")
        base.execute("create table t (x)")
        base.execute("insert into t values (zeroblob(100000))")
    finally:
        base.close()


@pytest.mark.parametrize(
    "write", [write_all, write_as_tensorflow_does, write_as_sqlite_does]
)
def test_a_full_disk_names_the_file_and_the_repair(write, tmp_path):
    def fill():
        with atomic_path(tmp_path / "x") as temporary:
            write(temporary)

    refused(fill, "x` could not be written.*(No space left|full).*Free space")
    assert list(tmp_path.iterdir()) == []
