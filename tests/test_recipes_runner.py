import csv
import json
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from small_recipe import german, sentences, write_place
from tensorflow.core.util import event_pb2

from keras_msd.checks import InputError
from keras_msd.data import read_pairs
from keras_msd.data.tables import TextTable
from keras_msd.evaluate import calibrate_threshold
from keras_msd.io.files import read_json
from keras_msd.load import load_encoder
from keras_msd.recipes import prepare, run, runner
from keras_msd.recipes.cache import locked
from keras_msd.recipes.load import load_recipe
from keras_msd.recipes.resources import Run, corpus_of
from keras_msd.testing import tiny_encoder
from keras_msd.training import CollapseMonitor, resume

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write a recipe and a data folder; return their parent."""
    return write_place(tmp_path_factory.mktemp("recipes"))


def start(place, out, **options):
    given = {"data_dir": place / "data", "store_dir": place / "store"}
    return run(place / "small.toml", place / out, **given | options)


@pytest.fixture(scope="module")
def finished(place):
    return start(place, "finished", tensorboard=True)


def content(folder):
    """Return the bytes of all that a run must give again, by path."""
    names = {"weights.safetensors", "encoder.json", "scores.json", "history.json"}
    files = [path for path in folder.rglob("*") if path.name in names]
    of_tokenizers = folder.rglob("tokenizer/*")  # also of the step of this name
    files += [it for it in of_tokenizers if it.is_file() and it.name != "done.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_run_leaves_what_it_says(place, finished):
    folder = place / "finished"
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["rows"] == finished["rows"]
    rows = {row["name"]: row for row in scores["rows"]}
    assert list(rows) == [
        "teacher", "closed form", "closed form, B 4", "assistant before stage 1",
        "assistant", "student, untrained", "student, SVD start",
        "student, align_embedding", "student, teach_student",
        "student, contrastive_learning",
    ]  # fmt: skip
    last = rows["student, contrastive_learning"]
    student = load_encoder(folder / "student")
    assert (
        last["parameters"] == student.num_parameters < rows["assistant"]["parameters"]
    )
    assert rows["closed form, B 4"]["table_bytes"] == last["table_bytes"]
    assert sum(last["parameters_by_layer"].values()) == last["parameters"]
    assert last["cross_lingual"] == last["tracks"]["en-de"]
    assert {"monolingual", "retrieval"} <= last.keys()
    assert last["retrieval_tracks"].keys() == {"deu"}
    assert last["retrieval_others_tracks"] == {"fin": last["retrieval_others"]}
    assert last["retrieval_others"] != last["retrieval"]
    assert "monolingual" not in rows["student, teach_student"]
    assert rows["teacher"]["tracks"].keys() == {"en"}
    share = 100 * last["cross_lingual"] / rows["assistant"]["cross_lingual"]
    assert scores["measured"]["kept_student"] == pytest.approx(share, abs=1e-3)
    timings = json.loads((folder / "timings.json").read_text())
    assert sum(timings["parts"].values()) == pytest.approx(timings["seconds"], abs=0.01)
    history = json.loads((folder / "stages/teach_assistant/history.json").read_text())
    assert history["steps"] == [1, 2, 3]
    assert history["terms"].keys() == {"loss", "source_mse", "target_mse"}
    report = Path(finished["report"]).read_text(encoding="utf-8")
    assert "small" in report and "steps = 3" in report
    (artefact,) = finished["artefacts"]
    texts = ["the cat sees the dog", german("the cat sees the dog")]
    np.testing.assert_allclose(
        load_encoder(artefact).encode(texts), student.encode(texts), atol=1e-5
    )
    pairs = read_pairs(place / "data/parallel/dev")
    held_out = calibrate_threshold(student, pairs, name="held-out pairs in en, de")
    assert read_json(Path(artefact) / "card.json")["threshold"] == held_out
    (query,) = read_json(folder / "neighbours.json")
    assert query["language"] == "de" and len(query["neighbours"]) == 5


def test_stages_train_what_they_name(place, finished):
    stages = place / "finished" / "stages"
    before = load_encoder(stages / "align_embedding/encoder").weights()
    after = load_encoder(stages / "teach_student/encoder").weights()
    changed = {path for path in before if (before[path] != after[path]).any()}
    assert changed and not any(path.startswith("embedding/") for path in changed)
    tables = [TextTable.open(path) for path in (stages / "pairs").glob("texts*")]
    corpora = [{corpus_of(file.name) for file in table.files} for table in tables]
    assert len(tables) == 3 and {"other"} in corpora  # of all, of one stage, limited
    assert 40 in map(len, tables)
    start = load_encoder(stages / "student_start/encoder").weights()
    aligned = {path for path in before if (before[path] != start[path]).any()}
    assert aligned and all(path.startswith("embedding/") for path in aligned)


@pytest.mark.slow
def test_a_killed_run_gives_the_same_bytes(place, finished, monkeypatch, capsys):
    killed = place / "killed"
    shutil.copytree(place / "finished", killed)
    done = {"pairs", "teacher_vectors", "score_teacher", "tokenizer"}
    for mark in killed.glob("stages/*/done.json"):
        if mark.parent.name not in done:
            mark.unlink()
    for path in killed.glob("stages/*/encoder/weights.safetensors"):
        path.write_bytes(path.read_bytes()[:100])  # half-written files stay behind
    for name in ("scores.json", "report.html"):
        (killed / name).unlink()
    shutil.rmtree(killed / "student")
    save = resume._Saver._save

    def cut(checkpoint):
        save(checkpoint)
        if checkpoint.done == 2:
            raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(resume._Saver, "_save", cut)
        patch.setattr(runner, "WATCHED_S", -1.0)
        with pytest.raises(RuntimeError, match="power cut"):
            start(place, "killed", checkpoint_minutes=0)
    shown = [row["name"] for row in read_json(killed / "scores.json")["rows"]]
    assert shown[-1] == "assistant before stage 1"  # to look on in a browser
    assert "assistant before stage 1" in (killed / "report.html").read_text()
    unfinished = killed / "stages/teach_assistant/unfinished"
    assert sorted(path.name for path in unfinished.iterdir()) == [
        "update_0000000001",
        "update_0000000002",
    ]
    (killed / "stages/teach_assistant/half_written").touch()
    capsys.readouterr()
    # Neither this nor events leave a trace in what a run is compared by.
    start(place, "killed", profile=True)
    said = capsys.readouterr().err
    for path in (killed / "stages").glob("*/history.json"):
        name, profile = path.parent.name, read_json(path.with_name("profile.json"))
        assert profile["updates"] >= 1 and profile["checkpoints"] >= 0
        assert f"{name}: an update takes" in said
    assert not unfinished.exists()
    assert not (killed / "stages/teach_assistant/half_written").exists()
    assert content(killed) == content(place / "finished")
    marks = {path: path.stat().st_mtime_ns for path in killed.rglob("done.json")}
    start(place, "killed")
    assert marks == {path: path.stat().st_mtime_ns for path in marks}


def test_a_damaged_run_says_so_and_is_repaired(place, finished, tmp_path):
    copy = shutil.copytree(place / "finished", tmp_path / "copy")
    for name in ("student/weights.safetensors", "stages/pairs/texts/source.values"):
        content_of = bytearray((copy / name).read_bytes())
        content_of[-5] ^= 1
        (copy / name).write_bytes(content_of)
    (copy / "stages/.x.01234567.partial").mkdir()
    with pytest.raises(InputError, match="`pairs` of .*Delete stages/pairs there"):
        start(place, copy)
    with pytest.warns(UserWarning, match="Done anew") as said:
        start(place, copy, repair=True)
    said = [str(it.message) for it in said if "Done anew" in str(it.message)]
    assert ["`pairs`" in said[0], "`keep_student`" in said[1], len(said)] == [1, 1, 2]
    assert content(copy) == content(place / "finished")
    assert not [*copy.rglob(".*.partial")]


def test_tensorboard_gets_the_history(place, finished, monkeypatch):
    run_folder, matched = place / "finished", 0
    for path in (run_folder / "stages").glob("*/history.json"):
        history, found = read_json(path), {}
        for file in (run_folder / "tensorboard" / path.parent.name).iterdir():
            for record in tf.data.TFRecordDataset(str(file)):
                event = event_pb2.Event.FromString(record.numpy())
                for value in event.summary.value:
                    found[value.tag, event.step] = value.simple_value
        known = {
            (name, step): value
            for name, values in history["terms"].items()
            for step, value in zip(history["steps"], values, strict=True)
        }
        assert found == pytest.approx(known, rel=1e-6)
        matched += len(found)
    assert matched > 20


def test_the_history_is_a_table_too(place, finished):
    folder = place / "finished/stages/teach_assistant"
    history = read_json(folder / "history.json")
    with open(folder / "history.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == history["steps"]
    assert rows[0].keys() == {"step"} | history["terms"].keys()
    for name, values in history["terms"].items():
        assert [float(row[name]) for row in rows] == values


def test_a_folder_belongs_to_one_run(place, finished, tmp_path):
    with pytest.raises(InputError, match=r"step `pairs` .*data.seed \(0 then, 1 now\)"):
        start(place, "finished", overrides={"data.seed": 1})
    (tmp_path / "mine.txt").touch()
    with pytest.raises(InputError, match="holds something else"):
        start(place, tmp_path)
    tiny_encoder(bottleneck_dim=None).save(tmp_path / "teacher")
    other = {"teacher.source": str(tmp_path / "teacher"), "teacher.dim": None}
    with pytest.raises(InputError, match="step `teacher_vectors` .*encoder"):
        start(place, "finished", overrides=other)
    with pytest.raises(InputError, match="a run of the recipe `small`. Received: `ot"):
        start(place, "finished", overrides={"recipe.name": "other"})
    with locked(place / "finished"):
        with pytest.raises(InputError, match="which another process works on"):
            start(place, "finished")


def other_run(place, overrides):
    """Return the finished run with another recipe."""
    recipe = load_recipe(place / "small.toml", "smoke", overrides)
    folder = SimpleNamespace(step=(place / "finished" / "stages").joinpath)
    return Run(recipe, folder, [place / "data"], place / "store")


def test_an_ordered_start_turns_means_of_word_rows(place, finished, monkeypatch):
    ours = other_run(place, {"student.start": "ordered"})
    seen = {}

    def turn(source, target, dims, group, **options):
        seen.update(source=source, target=target, dims=dims, group=group)
        return np.eye(16, dtype="float32")[::-1]

    monkeypatch.setattr(prepare.reduction, "order_dimensions", turn)
    parents = {"student": "untrained", "assistant": "teach_assistant"}
    prepare.start_student(ours, place, **parents, start="ordered")
    assistant = load_encoder(place / "finished/stages/teach_assistant/encoder")
    table = assistant.weights()["embedding/word"]
    for side in ("source", "target"):
        lists = assistant.tokenizer.encode(ours.texts.texts(side, 0, len(ours.texts)))
        wanted = [sum(table[token] for token in ids) / len(ids) for ids in lists]
        np.testing.assert_allclose(seen[side], wanted, atol=1e-6)
    assert seen["dims"] == [4]
    started = load_encoder(place / "encoder").weights()
    np.testing.assert_allclose(started["embedding/word"], table[:, :11:-1], atol=1e-6)


def test_ridge_start_is_the_closed_form(place, finished):
    texts = sentences(5, 9)
    begin = {"assistant.start": "ridge"}
    shape = {"assistant.hidden_dim": 4, "assistant.projection_dim": 16}
    ours = other_run(place, begin | shape)
    narrow = prepare.make_assistant(ours)
    assert narrow.config.num_layers == 2
    closed = load_encoder(place / "finished/stages/closed_form_b4/encoder")
    np.testing.assert_allclose(narrow.encode(texts), closed.encode(texts), atol=1e-5)
    ours = other_run(place, begin | {"assistant.bottleneck_dim": 4})
    wide = prepare.make_assistant(ours)
    np.testing.assert_allclose(wide.encode(texts), closed.encode(texts), atol=1e-5)


QUICK = {
    "evaluate.artefacts": False,
    "evaluate.intermediate": "none",
    "evaluate.sets": ["examples"],
    "starts.closed_form": False,
    "student.kind": "none",
}


def test_a_rate_that_is_far_too_high(place):
    changes = QUICK | {"stages.teach_assistant.learning_rate": 1e38}
    said = r"(?s)`teach_assistant`.*is not done.*1e\+38.*begins this stage again"
    with pytest.raises(InputError, match=said):
        start(place, "diverged", overrides=changes)
    left = [*(place / "diverged").rglob("*")]
    weights = [it for it in left if it.name == "weights.safetensors"]
    assert not [it for it in weights if "stages/teach_assistant" in str(it)]
    for path in left:
        if path.suffix == ".json":
            json.loads(path.read_text(), parse_constant=pytest.fail)


def test_collapse_is_said_in_a_run(place, monkeypatch):
    always = partial(CollapseMonitor, threshold=-2.0, every=1)
    monkeypatch.setattr("keras_msd.recipes.train.CollapseMonitor", always)
    start(place, "collapsed", overrides=QUICK)
    history = read_json(place / "collapsed/stages/teach_assistant/history.json")
    assert history["collapsed"]["updates"] == 1
    page = (place / "collapsed" / "report.html").read_text(encoding="utf-8")
    assert "collapsed" in page
