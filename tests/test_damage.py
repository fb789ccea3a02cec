"""What was damaged is never taken for what was written."""

import errno
import os
import re
import subprocess
import sys
import textwrap

import pytest
from damages import cut, flip

from keras_msd.checks import InputError
from keras_msd.io import files
from keras_msd.io.files import atomic_path, clear_leftovers
from keras_msd.recipes import cache
from keras_msd.recipes.cache import ELSEWHERE, RunFolder
from keras_msd.recipes.load import load_recipe

MADE_FROM = {"settings": {"rate": 0.5}, "files": {"a.tsv": "12"}}


def made(path, made_from=MADE_FROM, **options):
    """Return a run's folder after two steps, and how often an action was called."""
    folder = RunFolder(path, load_recipe("xkd_lab", "smoke"), **options)
    folder.claim()
    calls = []

    def train(step):
        calls.append("train")
        (step / "encoder").mkdir()
        (step / "encoder/weights").write_bytes(bytes(range(256)) * 9)
        (step / "history.json").write_text('{"loss": 1.5}')
        (path / "student").mkdir(exist_ok=True)
        (path / "student/weights").write_bytes(bytes(99))
        return {"steps": 7, ELSEWHERE: ["student"]}

    def score(step):
        calls.append("score")
        return {"cross_lingual": 55.25}

    steps = {"train": train, "score": score}
    records = [folder.perform(*step, made_from) for step in steps.items()]
    assert [it["result"] for it in records] == [{"steps": 7}, {"cross_lingual": 55.25}]
    return calls


def edit(path):
    path.write_text(path.read_text().replace("5", "6", 1))


NO_MARKS = [b"{}", b"null", b"[]", b"\xff", b"[" * 9999]


@pytest.mark.parametrize(
    ("name", "step", "damage"),
    [
        ("stages/train/encoder/weights", "train", flip),
        ("stages/train/encoder/weights", "train", cut),
        ("stages/train/history.json", "train", edit),
        ("stages/train/history.json", "train", os.unlink),
        ("student/weights", "train", flip),
        ("stages/score/done.json", "score", edit),
        ("stages/score/done.json", "score", cut),
        *(("stages/score/done.json", "score", content) for content in NO_MARKS),
    ],
)
def test_damage_is_named_and_repaired(tmp_path, name, step, damage):
    assert made(tmp_path) == ["train", "score"]
    assert made(tmp_path) == []
    before = {p: p.read_bytes() for p in tmp_path.rglob("weights")}
    if isinstance(damage, bytes):
        (tmp_path / name).write_bytes(damage)
    else:
        damage(tmp_path / name)
    lost = name.rpartition("/")[2]
    with pytest.raises(InputError, match=f"`{step}`.*{lost}.*Delete stages/{step} "):
        made(tmp_path)
    with pytest.warns(UserWarning, match=f"`{step}`.*Done anew"):
        assert made(tmp_path, repair=True) == [step]
    assert {p: p.read_bytes() for p in tmp_path.rglob("weights")} == before
    assert made(tmp_path) == []


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = [", b""])
def test_a_damaged_recipe_is_written_again(tmp_path, content):
    made(tmp_path)
    before = (tmp_path / "recipe.toml").read_bytes()
    (tmp_path / "recipe.toml").write_bytes(content)
    assert made(tmp_path) == []
    assert (tmp_path / "recipe.toml").read_bytes() == before


def test_what_a_step_was_made_from_is_compared(tmp_path):
    made(tmp_path)
    other = {"settings": {"rate": 0.1}, "files": {"b.tsv": "12"}}
    words = r"`train`.*files.a.tsv \(12 then.*settings.rate \(0.5 then, 0.1 now\)"
    with pytest.raises(InputError, match=f"(?s){words}.*another `out_dir`"):
        made(tmp_path, other)
    assert made(tmp_path) == []


def test_what_is_unfinished_of_other_settings_is_left(tmp_path):
    folder = RunFolder(tmp_path, load_recipe("xkd_lab", "smoke"))
    folder.claim()

    def stopped(step):
        seen.append((step / "unfinished").exists())
        (step / "unfinished").mkdir(exist_ok=True)
        raise KeyboardInterrupt

    seen = []
    for rate in (0.5, 0.5, 0.1, 0.1):
        with pytest.raises(KeyboardInterrupt):
            folder.perform("train", stopped, {"settings": {"rate": rate}})
    assert seen == [False, True, False, True]


def test_a_mark_of_another_run_or_step_is_none(tmp_path):
    """Scores have no files: what the mark says is all there is."""
    made(tmp_path / "mine")
    made(tmp_path / "other", MADE_FROM | {"seed": 1})
    mark = tmp_path / "mine/stages/score/done.json"
    for strange in ("other/stages/score", "mine/stages/train"):
        mark.write_bytes((tmp_path / strange / "done.json").read_bytes())
        with pytest.raises(InputError, match="`score`"):
            made(tmp_path / "mine")


def raising(error):
    def action(*given, **options):
        raise error

    return action


def test_an_error_of_others_says_at_which_step_it_came(tmp_path):
    folder = RunFolder(tmp_path, load_recipe("xkd_lab", "smoke", {}))
    folder.claim()
    with pytest.raises(KeyError) as caught:
        folder.perform("train", raising(KeyError("a teacher's")))
    (note,) = caught.value.__notes__
    assert f"step `train` of `{tmp_path}` is not done" in note
    assert "give the same command again" in note
    assert folder.done("train", {}) is None
    assert folder.perform("train", lambda step: {"steps": 7})["result"] == {"steps": 7}
    with pytest.raises(InputError) as ours:
        folder.perform("score", raising(InputError("has a repair of its own")))
    assert not hasattr(ours.value, "__notes__")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EFBIG])
def test_a_full_disk_names_the_step_where_the_system_names_nothing(tmp_path, number):
    folder = RunFolder(tmp_path, load_recipe("xkd_lab", "smoke", {}))
    folder.claim()
    full = raising(OSError(number, os.strerror(number)))
    where = re.escape(str(tmp_path / "stages/train"))
    with pytest.raises(InputError, match=f"`{where}` could not be written.*Free space"):
        folder.perform("train", full)


def test_a_folder_that_is_read_only_is_named(tmp_path, monkeypatch):
    error = OSError(errno.EROFS, os.strerror(errno.EROFS))
    monkeypatch.setattr(os, "open", raising(error))
    where = re.escape(str(tmp_path))
    with pytest.raises(InputError, match=f"`{where}` could not be written.*Read-only"):
        with cache.locked(tmp_path):
            raise AssertionError("it has no lock")


WRITE = """
import os, sys
from pathlib import Path
from keras_msd.io import files
count = 0
def replace(source, target, original=os.replace):
    global count
    count += 1
    if count == 2:
        os._exit(9)  # a kill between both renames
    original(source, target)
os.replace = replace
for content in ("one", "two"):
    with files.atomic_path(sys.argv[1]) as temporary:
        temporary.mkdir()
        (temporary / content).touch()
"""


def test_a_file_replaces_no_folder(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        with atomic_path(tmp_path / "a") as temporary:
            temporary.write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").is_dir()


def test_a_killed_replacement_leaves_a_folder(tmp_path):
    path = tmp_path / "artefact"
    path.mkdir()
    (path / "old").touch()
    code = subprocess.run([sys.executable, "-c", textwrap.dedent(WRITE), path])
    assert code.returncode == 9 and not path.exists()
    with atomic_path(path) as temporary:  # the next write finds the folder
        assert [it.name for it in path.iterdir()] == ["old"]
        temporary.mkdir()
    assert [it.name for it in tmp_path.iterdir()] == ["artefact"]


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    path = tmp_path / "a"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    machine = files._machine()
    dead = tmp_path / f".a.{machine}-{ended.pid}.01234567.partial"
    living = tmp_path / f".a.{machine}-{os.getppid()}.01234567.partial"
    elsewhere = tmp_path / f".a.{'0' * 8}-{ended.pid}.01234567.partial"
    other = tmp_path / f".b.{machine}-{ended.pid}.01234567.partial"
    for left in (dead, living, elsewhere, other):
        left.mkdir()
        (left / "file").touch()
    mine = tmp_path / ".a.mine.partial"
    mine.touch()
    with atomic_path(path) as temporary:
        temporary.touch()
    assert {*tmp_path.iterdir()} == {path, living, elsewhere, other, mine}
    lost = tmp_path / f".c.{'0' * 8}-1.01234567.old"
    lost.touch()
    clear_leftovers(tmp_path)
    assert {*tmp_path.iterdir()} == {path, mine, tmp_path / "c"}


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="looks at descriptors")
def test_names_reach_the_disk_and_not_only_bytes(tmp_path, monkeypatch):
    """Without a sync of its folder a new name may be lost with the power."""
    synced, renamed = [], []

    def sync(handle, original=os.fsync):
        path = os.readlink(f"/proc/self/fd/{handle}")
        synced.append((path, bool(renamed)))
        original(handle)

    def replace(one, other, original=os.replace):
        original(one, other)
        renamed.append(other)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    with atomic_path(tmp_path / "a") as temporary:
        temporary.mkdir()
        (temporary / "file").touch()
    inner = str(temporary)
    assert synced == [
        (f"{inner}/file", False),
        (inner, False),
        (str(tmp_path), True),
    ]
