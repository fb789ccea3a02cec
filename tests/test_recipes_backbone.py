"""Recipes that begin with an encoder that exists."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from small_recipe import sentences, write_place

from keras_msd import load_teacher, trim_vocabulary
from keras_msd.checks import InputError
from keras_msd.data import GuideStore
from keras_msd.data.tables import TextTable
from keras_msd.load import load_encoder
from keras_msd.recipes import load_recipe, prepare, run, runner
from keras_msd.recipes.resources import Run
from keras_msd.recipes.runner import steps_of
from keras_msd.starts import choose_layers
from keras_msd.teachers import JointTeacher
from keras_msd.testing import tiny_encoder
from keras_msd.training import optimizer

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")
SHAPE = {"num_layers": 2, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32}
STUDENTS_STAGES = "align_embedding", "teach_student", "contrastive_learning"
SIMILARITIES = {
    "loss": "multilingual_contrastive",
    "goals": "teacher",
    "grouped": True,
    "arguments": {"target": "softmax", "temperature": 0.02},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = write_place(tmp_path_factory.mktemp("place"))
    for name in ("backbone", "finetuned"):
        tiny_encoder(**SHAPE, dropout=0.0, normalize=True).save(folder / name)
    for name, seed in (("one", 1), ("two", 2)):
        keras.utils.set_random_seed(seed)
        tiny_encoder(num_layers=0).save(folder / name)
    return folder


def settings(place, **more):
    return {"assistant.source": str(place / "backbone"), **more}


def start(place, out, overrides):
    given = (out, "smoke", place / "data", place / "store")
    return run(place / "small.toml", *given, overrides=overrides)


GUIDES = {
    "guides.both.weights": [1.0, 2.0],
    "guides.both.center": 9,
    "guides.both.multilingual": True,
    "stages.teach_assistant.losses.similarities": SIMILARITIES
    | {"goals": ["both", "both_target"]},
}


def with_guides(place):
    """Return the changes that give stage 1 a second teacher, made of two encoders."""
    sources = [str(place / "one"), str(place / "two")]
    return settings(place) | GUIDES | {"guides.both.sources": sources}


@pytest.fixture(scope="module")
def finished(place):
    """Return a run from the backbone, and the optimizers of its stages."""
    made, make = [], optimizer.make_optimizer

    def recorded(**options):
        made.append(make(**options))
        return made[-1]

    changes = with_guides(place) | {
        "assistant.trim.pieces": 60,
        "evaluate.artefacts": False,
        "evaluate.intermediate": "none",
        "starts.closed_form": False,
        "stages.teach_assistant.frozen": ["embedding"],
        "stages.teach_assistant.weights": {"source_mse": 8.0, "target_mse": 8.0},
        "stages.teach_student.frozen": [],
        "student.unit_from": "last",
        "student.max_length": 16,
        "student.variants.thin": {
            "num_heads": 1,
            "intermediate_dim": 20,
            "unit_layers": 2,
            "stages": {name: {"skip": True} for name in STUDENTS_STAGES},
        },
        "student.variants.shallow": {
            "unit_from": "measured",
            "refit": 20,
            "stages": {name: {"skip": True} for name in STUDENTS_STAGES},
        },
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimizer, "make_optimizer", recorded)
        patch.setattr(runner, "PRUNING_TEXTS", 30)
        patch.setattr(prepare, "DEPTH_TEXTS", 20)
        start(place, place / "run", changes)
    return place / "run", made


def test_the_vocabulary_is_trimmed_before_stage_1(place, finished):
    folder, _ = finished
    table = load_encoder(folder / "stages/assistant_start/encoder")
    rows = table.tokenizer.vocabulary_size
    assert rows <= 60 < load_encoder(place / "backbone").tokenizer.vocabulary_size
    pairs = TextTable.open(folder / "stages/pairs/texts")
    texts = [it for side in ("source", "target") for it in pairs.texts(side, 0, 999)]
    wanted = trim_vocabulary(load_encoder(place / "backbone"), texts, keep=60)
    assert table.tokenizer.fingerprint == wanted.tokenizer.fingerprint
    texts = sentences(5, 9)
    np.testing.assert_allclose(table.encode(texts), wanted.encode(texts), atol=1e-6)


def test_the_unit_begins_as_the_last_layers(finished):
    folder, _ = finished
    taught = load_encoder(folder / "stages/teach_assistant/encoder")
    student = load_encoder(folder / "stages/untrained/encoder")
    assert student.max_length == 16 < taught.max_length
    last = f"body/block_{student.config.num_layers - 1}/"
    values, given = student.weights(), taught.weights()
    names = [name for name in values if name.startswith(last)]
    assert names
    for name in names:
        wanted = given[name.replace(last, "body/block_1/")]
        np.testing.assert_array_equal(values[name], wanted)


def test_a_student_of_pruned_layers(finished):
    folder, _ = finished
    taught, pruned, student = (
        load_encoder(folder / f"stages/{step}/encoder")
        for step in ("teach_assistant", "pruned_thin", "student_start_thin")
    )
    texts = TextTable.open(folder / "stages/pairs/texts")
    draw = np.random.default_rng(0)
    lines = prepare.lines_of_languages(texts, 30, draw)
    for side in ("source", "target"):
        known = set(texts.texts(side, 0, len(texts)))
        assert len([line for line in lines if line in known]) == 15
    record = json.loads((folder / "stages/pruned_thin/done.json").read_text())
    assert record["result"] == {"texts": 30}
    values, given, before = (it.weights() for it in (student, pruned, taught))
    query = "body/block_{}/self_attention_layer/query/kernel"
    for layer in range(2):
        found = values[query.format(layer)]
        assert found.shape == (16, 1, 8)
        np.testing.assert_array_equal(found, given[query.format(layer)])
        heads = before[query.format(layer)]
        assert any((found[:, 0] == heads[:, head]).all() for head in (0, 1))
    table = before["embedding/word"]
    rank = values["embedding/word"] @ values["embedding/projection"]
    assert np.linalg.norm(rank - table) < np.linalg.norm(table)
    assert given["body/block_0/feedforward_output_dense/kernel"].shape == (20, 16)


def test_sentences_are_drawn_from_all_of_a_language(finished):
    texts = TextTable.open(finished[0] / "stages/pairs/texts")
    places = {}
    for file in texts.files:
        sides = {"source": file.source_language, "target": file.language}
        for side, language in sides.items():
            lines = [*texts.texts(side, file.start, file.stop)]
            places[language] = [*places.get(language, []), *lines]
    draw, wanted = np.random.default_rng(1), []
    for lines in places.values():
        drawn = draw.choice(len(lines), 20 // len(places), replace=False)
        wanted += [lines[index] for index in drawn]
    found = prepare.lines_of_languages(texts, 20, np.random.default_rng(1))
    assert len(places) > 1 and found == wanted


def test_a_student_of_the_layer_that_counts_most(finished):
    folder, _ = finished
    taught, student = (
        load_encoder(folder / f"stages/{step}/encoder")
        for step in ("teach_assistant", "untrained_shallow")
    )
    texts = TextTable.open(folder / "stages/pairs/texts")
    draw = np.random.default_rng(0)
    lines = prepare.lines_of_languages(texts, 20, draw)
    (layer,) = choose_layers(taught, lines, 1)
    record = json.loads((folder / "stages/shallow_shallow/done.json").read_text())
    assert record["result"] == {"layers": [layer], "texts": 20}
    names = [name for name in student.weights() if name.startswith("body/block_0/")]
    for name in names:
        wanted = taught.weights()[name.replace("block_0", f"block_{layer}")]
        np.testing.assert_array_equal(student.weights()[name], wanted)


def test_a_frozen_table_gets_no_gradient_and_no_state(finished):
    folder, optimizers = finished
    before, after = (
        load_encoder(folder / f"stages/{step}/encoder").weights()
        for step in ("assistant_start", "teach_assistant")
    )
    moved = {name for name in before if (before[name] != after[name]).any()}
    assert moved and not any(name.startswith("embedding/") for name in moved)
    trained = {name: it.size for name, it in before.items()}
    frozen = sum(n for name, n in trained.items() if name.startswith("embedding/"))
    # Two moments of each weight, and a few numbers of the optimizer's own.
    state = sum(int(np.prod(v.shape)) for v in optimizers[0].variables)
    expected = 2 * (sum(trained.values()) - frozen)
    assert expected <= state <= expected + 4


@pytest.mark.slow
def test_what_is_set_of_an_encoder_that_exists_is_done(place, tmp_path):
    changes = settings(place) | {
        "assistant.num_layers": 1,
        "assistant.pooling": "cls",
        "assistant.normalize": False,
        "assistant.dropout": 0.25,
        "assistant.average.source": str(place / "finetuned"),
        "assistant.average.share": 0.25,
        "starts.closed_form": False,
        "stages.teach_assistant.skip": True,
    }
    start(place, tmp_path / "run", changes)
    found = load_encoder(tmp_path / "run/assistant")
    config = found.config
    assert (config.num_layers, config.pooling, config.dropout) == (1, "cls", 0.25)
    one, two = (
        load_encoder(place / name).weights() for name in ("backbone", "finetuned")
    )
    for name, value in found.weights().items():
        mean = 0.75 * one[name] + 0.25 * two[name]
        np.testing.assert_allclose(value, mean, rtol=1e-5, atol=1e-7)
    lengths = np.linalg.norm(found.encode(sentences(4, 3)), axis=1)
    assert np.abs(lengths - 1).max() > 0.01


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("assistant.hidden_dim", 8, "a shape of its own; received `hidden_dim`"),
        ("assistant.start", "ridge", "a shape of its own; received `start`"),
        ("assistant.trim.keep", 5, "Unknown key `assistant.trim.keep`.*pieces"),
        ("assistant.source", "none", "`trim` change an encoder that exists"),
        ("assistant.average.share", 0.5, "`assistant.average.source`"),
        ("tokenizer.vocabulary_size", 90, "has no `tokenizer.vocabulary_size`"),
        ("guides.teacher2.sources", ["tiny12"], "a name that is no target"),
        ("guides.both.source", "tiny12", "Unknown key `guides.both.source`"),
    ],
)
def test_what_cannot_be_done_is_refused(place, key, value, message):
    changes = with_guides(place) | {"assistant.trim.pieces": 9, key: value}
    with pytest.raises(InputError, match=message):
        load_recipe(place / "small.toml", "smoke", changes)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("assistant.num_layers", 3, "Received: 3, and .* has 2"),
        ("student.num_heads", 3, "`num_heads` must be.*, 2. .*num_heads=3"),
        ("guides.both.multilingual", False, "reads en.*would read the target texts"),
    ],
)
def test_what_does_not_fit_the_encoder_is_refused_before_work(
    place, tmp_path, key, value, message
):
    with pytest.raises(InputError, match=message):
        start(place, tmp_path / "run", with_guides(place) | {key: value})
    assert not (tmp_path / "run").exists()


def test_a_large_ridge_is_refused_or_left_out(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(prepare, "MOST_PIECES", 39)
    begin = {"assistant.start": "ridge"}
    with pytest.raises(InputError, match="takes at most 39 pieces.*Received: 40"):
        start(place, tmp_path / "run", begin)
    assert not (tmp_path / "run").exists()
    recipe = load_recipe(place / "small.toml", "smoke")
    folder = SimpleNamespace(step=tmp_path.joinpath)
    work = Run(recipe, folder, [place / "data"], place / "store")
    prepare.check(work)
    assert "No closed forms: ridge regression takes" in capsys.readouterr().err
    names = [step.name for step in steps_of(work)]
    assert not [name for name in names if name.startswith(("ridge", "closed_form"))]


def test_a_term_learns_from_a_second_teacher(place, finished):
    folder, _ = finished
    history = json.loads((folder / "stages/teach_assistant/history.json").read_text())
    terms = {"source_mse", "target_mse", "similarities"}
    assert terms <= history["terms"].keys()
    assert all(value > 0 for value in history["terms"]["similarities"])
    texts = TextTable.open(folder / "stages/pairs/texts")
    source, target = (texts.texts(it, 0, len(texts)) for it in ("source", "target"))
    parts = [load_teacher(place / name) for name in ("one", "two")]
    center = [source[int(row)] for row in np.linspace(0, len(source) - 1, 9)]
    joint = JointTeacher(parts, [1.0, 2.0], center)
    store = GuideStore(joint, place / "store" / joint.fingerprint)
    assert len(store) == len({*source, *target})
    some = source[:5] + target[:5]
    np.testing.assert_allclose(store.targets(some), joint.encode(some), atol=1e-3)
