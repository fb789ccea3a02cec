"""Steps that runs share, and a run's folder, which one process holds at a time."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from keras_msd.checks import InputError
from keras_msd.io.files import read_json
from keras_msd.recipes import cache, run_all
from keras_msd.recipes.cache import RunFolder, Step, key_of, locked, made_from, perform
from keras_msd.recipes.load import load_recipe
from keras_msd.recipes.outputs import run_scores
from keras_msd.recipes.resources import Run
from keras_msd.recipes.runner import run, steps_of

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")

TINY = {
    "assistant.num_layers": 2,
    "assistant.hidden_dim": 16,
    "assistant.num_heads": 2,
    "assistant.intermediate_dim": 16,
    "teacher.dim": 16,
    "starts.closed_form": False,
    "evaluate.intermediate": "none",
    "evaluate.artefacts": False,
    "student.start": "svd",
    "data.pairs_per_language": 60,
    "tokenizer.vocabulary_size": 120,
    "stages.teach_assistant.steps": 2,
    "stages.align_embedding.steps": 1,
    "stages.teach_student.skip": True,
    "stages.contrastive_learning.steps": 3,
    "stages.contrastive_learning.scored": 2,
}
NAMES = ["msd_xlmr_b128_ru3", "msd_minilm_b128_ru3"]
# These write outside their folders, or measure time: no other step reads what they do.
ALONE = {"teacher_vectors", "keep_assistant", "keep_student"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Run a recipe that leaves its steps to others."""
    folder = tmp_path_factory.mktemp("shared")
    options = {"overrides": TINY, "share_steps": True}
    run(NAMES[1], folder / "alone", "smoke", None, folder / "store", **options)
    return folder


def content(folder):
    """Return the bytes of everything but marks and times, by path."""
    # Only a run that trains makes tables of token ids.
    files = [
        p for p in folder.rglob("*") if p.is_file() and "tokens-texts" not in p.parts
    ]
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in files
        if path.name not in ("done.json", "timings.json", "report.html", "recipe.toml")
    }


@pytest.mark.slow
def test_shared_and_lone_runs_leave_the_same_bytes(tmp_path):
    """Of two recipes that are alike at this scale."""
    place = tmp_path
    run_all(NAMES, "smoke", place / "runs", None, place / "store", TINY)
    run(NAMES[1], place / "alone", "smoke", None, place / "other_store", TINY)
    alone, second = content(place / "alone"), content(place / "runs" / NAMES[1])
    scores = "scores.json"
    assert alone.keys() == second.keys()
    assert any(path.endswith("weights.safetensors") for path in alone)
    assert [path for path in alone if alone[path] != second[path]] == []
    assert content(place / "runs" / NAMES[0])[scores] != alone[scores]  # another name
    first, second = (
        read_json(place / "runs" / name / "timings.json") for name in NAMES
    )
    assert first["reused"] == {}
    assert second["steps"].keys() - second["reused"].keys() == ALONE
    taken = second["reused"].values()
    assert sum(taken) == pytest.approx(
        sum(first["steps"][name] for name in second["reused"]), abs=0.01
    )
    assert "reused" not in (place / "alone/stages/pairs/done.json").read_text()


def test_a_stage_is_scored_on_its_way(place):
    folder = place / "alone/stages/contrastive_learning"
    curve = read_json(folder / "history.json")["scores"]
    (row,) = [
        row
        for row in read_json(place / "alone/scores.json")["rows"]
        if row.get("student") == "student"
    ]
    assert curve["steps"] == [2, 3] and row["stage"] == "contrastive_learning"
    assert curve["cross_lingual"][-1] == row["cross_lingual"]
    tracks = {name: values[-1] for name, values in curve.items() if "-" in name}
    assert tracks and tracks.items() <= row["tracks"].items()


def keys_of(place, changes=(), run_folder="alone", name=NAMES[1]):
    """Return the keys of shared steps, as if the run had done all with this."""
    recipe = load_recipe(name, "smoke", TINY | dict(changes))
    stages = place / run_folder / "stages"
    folder = SimpleNamespace(step=stages.joinpath, path=place / run_folder)
    ours, keys = Run(recipe, folder, (), place / "store"), {}
    steps = steps_of(ours)
    for step in steps:
        keys[step.name] = key_of(made_from(ours, step, keys))
    return {step.name: keys[step.name] for step in steps if step.shared}


def changed(before, after):
    return {name for name in before if before[name] != after.get(name)}


DATA = {"example_data", "pairs", "tokenizer"}
STARTS = {"assistant_start", "untrained", "student_start"}
STAGES = {"teach_assistant", "align_embedding", "contrastive_learning"}
SCORES = {"score_teacher", "score_teach_assistant", "score_contrastive_learning"}
LAST = {"contrastive_learning", "score_contrastive_learning"}
TRAINED = STARTS | STAGES | SCORES - {"score_teacher"}
STUDENTS = {"untrained", "student_start", "align_embedding"} | LAST


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("recipe.title", "Another", set()),
        ("precision", "bfloat16", TRAINED - {"assistant_start"}),
        ("recipe.seed", 1, TRAINED),
        ("data.seed", 1, DATA | TRAINED | SCORES),
        ("teacher.dim", 8, TRAINED | SCORES),
        ("tokenizer.vocabulary_size", 121, TRAINED | {"tokenizer"}),
        ("student.bottleneck_dim", 4, STUDENTS),
        ("stages.teach_assistant.steps", 3, TRAINED - {"assistant_start"}),
        ("stages.align_embedding.learning_rate", 1e-4, {"align_embedding"} | LAST),
        ("stages.contrastive_learning.target", "bool", LAST),
        ("student.stages.contrastive_learning.steps", 2, LAST),
        ("student.variants.x.unit_layers", 2, set()),
        ("evaluate.languages.examples", ["de"], {"contrastive_learning"} | SCORES),
    ],
)
def test_a_setting_changes_the_keys_of_what_it_reaches(place, key, value, wanted):
    assert changed(keys_of(place), keys_of(place, {key: value})) == wanted


def leaves(value, path=""):
    for key, inner in value.items():
        where = f"{path}.{key}".lstrip(".")
        yield from leaves(inner, where) if isinstance(inner, dict) else [(where, inner)]


def test_no_setting_is_forgotten(place):
    before, tried = keys_of(place), []
    harmless = ("recipe", "scale")
    for key, value in leaves(load_recipe(NAMES[1], "smoke", TINY).settings()):
        stage = ".".join([*key.split(".")[:2], "skip"])
        if key.startswith(harmless) or before_skipped(stage):
            continue
        if isinstance(value, bool):
            other = not value
        elif isinstance(value, int | float):
            other = 2.0 if value == float("inf") else type(value)(value * 2 or 1)
        else:
            continue
        try:
            after = keys_of(place, {key: other})
        except InputError:
            continue
        tried.append(key)
        assert changed(before, after) or before.keys() != after.keys(), key
    assert len(tried) > 40


def before_skipped(key):
    settings = dict(leaves(load_recipe(NAMES[1], "smoke", TINY).settings()))
    return settings.get(key) is True


def test_files_and_code_change_the_keys(place, tmp_path, monkeypatch):
    before = keys_of(place)
    shutil.copytree(place / "alone", tmp_path / "copy")
    data = tmp_path / "copy/stages/example_data/data"
    sts = data / "sts/examples.dev.de.tsv.gz"
    sts.write_bytes(sts.read_bytes() + b"\x00")
    curve = {"contrastive_learning"}  # its curve is made of scores
    assert changed(before, keys_of(tmp_path, (), "copy")) == SCORES | curve
    (file, *_) = sorted((data / "parallel/train").glob("*"))
    *most, last = file.read_bytes()
    file.write_bytes(bytes([*most, last ^ 255]))  # as long as before
    after = changed(before, keys_of(tmp_path, (), "copy"))
    assert after == {"pairs", "tokenizer", *STARTS, *STAGES, *SCORES}
    monkeypatch.setattr(cache, "versions", lambda: {"keras_msd": "other"})
    assert changed(before, keys_of(place)) == before.keys()


def first_step(place, tmp_path, shared=None):
    """Do the first step of a run in a new folder; return its record and its keys."""
    recipe = load_recipe(NAMES[1], "smoke", TINY)
    ours = Run(recipe, RunFolder(tmp_path / "run", recipe), (), place / "store")
    step, keys = steps_of(ours)[0], {}
    shared = shared or place / "store" / "steps"
    return perform(ours, step, keys, shared), keys


def test_two_folders_may_hold_a_file_of_one_name(tmp_path):
    paths = [tmp_path / folder / "train" / "x.en-de.tsv" for folder in "ab"]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text("A house.\tEin Haus.\n", encoding="utf-8")
    step = cache.Step("name", "part", lambda: None, files=lambda: paths)
    run = SimpleNamespace(recipe=SimpleNamespace(recipe=SimpleNamespace(seed=0)))
    before = made_from(run, step, {})
    paths[0].write_text("Another house.\tEin Haus.\n", encoding="utf-8")
    assert made_from(run, step, {}) != before


def test_a_damaged_file_is_not_taken(place, tmp_path):
    key = keys_of(place)["example_data"]
    (file, *_) = (place / "store/steps" / key / "files").rglob("*.en-de.tsv.gz")
    whole = file.read_bytes()
    file.unlink()  # other runs have links to the old bytes
    file.write_bytes(whole[:-1] + b"?")
    assert "reused" not in first_step(place, tmp_path)[0]
    assert (place / "store/steps" / key / "files" / "data").is_dir()  # stored anew
    assert "reused" in first_step(place, tmp_path / "again")[0]


def test_copies_where_links_are_impossible(place, tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError("no links here")

    monkeypatch.setattr("os.link", refuse)
    record, keys = first_step(place, tmp_path)
    assert keys == {"example_data": keys_of(place)["example_data"]}
    assert "reused" in record
    (file, *_) = (tmp_path / "run/stages/example_data/data/sts").glob("*")
    assert file.stat().st_nlink == 1


def test_a_full_disk_fails_no_step_that_is_done(place, tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.warns(UserWarning, match="`example_data` is done, but .*No space left"):
        first_step(place, tmp_path, tmp_path / "store")
    assert (tmp_path / "run/stages/example_data/done.json").is_file()
    assert not any((tmp_path / "store").iterdir())


def test_equal_students_share_what_comes_before_stage_4(place):
    keys = keys_of(place, {"stages.teach_student.skip": False}, name="msd_ablations")
    before = [key for key in keys if key.startswith(("student_start", "teach_student"))]
    assert len(before) == 14
    assert len({keys[name] for name in before}) == 4  # recurrent or not


HOLD = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_held_until_its_process_is_killed(tmp_path):
    folder = tmp_path / "new" / "run"
    with locked(folder):
        pass  # makes the folder
    command = [sys.executable, "-c", HOLD, str(folder / cache.LOCK)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout.readline().strip() == b"held"
            with pytest.raises(InputError, match="another process works on"):
                with locked(folder):
                    pass
        finally:
            other.kill()
    for _ in range(2):
        with locked(folder):
            pass


def test_an_assistant_that_scores_nothing():
    recipe = load_recipe("xkd_lab", "smoke")
    rows = [("assistant", {"kind": "assistant"}), ("small", {"student": "small"})]
    kind = {"kind": "stage"}
    steps = [Step(name, "evaluation", dict, row=kind | row) for name, row in rows]
    for whole, kept in ((0.0, {}), (4.0, {"kept_small": 75.0})):
        found = {"assistant": whole, "small": 3.0}
        records = {n: {"result": {"cross_lingual": v}} for n, v in found.items()}
        assert run_scores(recipe, steps, records)["measured"] == kept
