"""Where an export may write, and what it must never remove."""

import json
import os

import keras
import plain_exporter
import pytest

from keras_msd.checks import InputError
from keras_msd.export import export, read_card
from keras_msd.io import files
from keras_msd.io.files import atomic_path
from keras_msd.testing import tiny_encoder

ROWS = [(1.0, "one", "two"), (0.0, "cat", "dog")]


@pytest.fixture(scope="module")
def encoder(tokenizer):
    keras.utils.set_random_seed(7)
    return tiny_encoder(tokenizer, num_layers=0)


@pytest.fixture
def write(encoder, plain_format):
    """Return a function that exports to a path."""
    return lambda path: export(encoder, path, "plain", sentences=["one"], sts=ROWS)


def names(folder):
    found = (path for path in folder.rglob("*") if not path.is_dir())
    return {path.relative_to(folder).as_posix() for path in found}


OWN = {"card.json", "README.md", *plain_exporter.FILES}


def test_an_earlier_artefact_is_replaced(write, tmp_path):
    (tmp_path / "a").mkdir()
    for _ in range(2):
        assert write(tmp_path / "a") == tmp_path / "a"
        assert names(tmp_path) == {f"a/{name}" for name in OWN}
        (tmp_path / "a" / "__pycache__").mkdir()
        (tmp_path / "a" / "__pycache__" / "reader.pyc").touch()


def test_files_of_others_are_kept(write, tmp_path):
    write(tmp_path / "nest")
    write(tmp_path / "nest" / "int8")
    (tmp_path / "nest" / "link").symlink_to("nowhere")
    before = names(tmp_path)
    with pytest.raises(InputError, match=r"lost: int8/README.md, .*, link\."):
        write(tmp_path / "nest")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years")
    for card in (None, "{", json.dumps({"mine": 1})):
        if card is not None:
            (mine / "card.json").write_text(card)
        with pytest.raises(InputError, match="mine`; it has no whole card.json"):
            write(mine)
    assert names(tmp_path) == before | {"mine/thesis.txt", "mine/card.json"}


def test_links_and_the_working_directory(write, tmp_path, monkeypatch):
    write(tmp_path / "real")
    (tmp_path / "real" / "card.json").touch()
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and read_card(tmp_path / "link")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
    monkeypatch.chdir(tmp_path / "real")
    for path in (".", "..", "/", tmp_path / "link"):
        with pytest.raises(InputError, match="holds the working directory"):
            write(path)
    (tmp_path / "notes.txt").write_text("keep me")
    for path in (tmp_path / "notes.txt", tmp_path / "notes.txt" / "a" / "b"):
        with pytest.raises(InputError, match="`.*notes.txt` is a file"):
            write(path)


@pytest.mark.parametrize("interrupted", [1, 2])
def test_an_interrupt_keeps_the_earlier_folder(tmp_path, monkeypatch, interrupted):
    path = tmp_path / "a"
    path.mkdir()
    (path / "old").touch()
    calls = []

    def replace(source, target):
        calls.append(source)
        if len(calls) == interrupted:
            raise KeyboardInterrupt
        os.rename(source, target)

    monkeypatch.setattr(files.os, "replace", replace)

    def write_new():
        with atomic_path(path) as temporary:
            temporary.mkdir()
            (temporary / "new").touch()

    with pytest.raises(KeyboardInterrupt):
        write_new()
    assert names(tmp_path) == {"a/old"}
    monkeypatch.undo()
    write_new()
    assert names(tmp_path) == {"a/new"}
