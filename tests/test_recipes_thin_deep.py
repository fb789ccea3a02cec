"""Runs of LEALLA's recipes: students of every kind and start, the reduced teacher."""

from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file
from test_recipes_papers import QUICK, smoke

from keras_msd.checks import InputError
from keras_msd.io.files import read_json
from keras_msd.load import load_encoder
from keras_msd.recipes import load_recipe, prepare, run
from keras_msd.recipes.resources import Run

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("thin_deep")


def check_student(folder, done, loss):
    assert [row["name"] for row in done["rows"]] == [
        "teacher", "student, teach_thin_deep",
    ]  # fmt: skip
    student = load_encoder(folder / "student")
    assert student.dim == 16 and student.config.num_layers == 2
    assert student.config.pooling == "cls" and student.config.num_types == 2
    assert student.config.max_positions == 512
    history = read_json(folder / "stages/teach_thin_deep/history.json")
    assert history["terms"].keys() == {"loss", "ams", "feature"}
    start = load_encoder(folder / "stages/untrained/encoder")
    assert (start.dim == 32) == (loss == "ams_df")  # the teacher's width while training
    matrix = folder / "stages/reduction/reduction.npy"
    assert matrix.exists() == (loss == "ams_syn")


def test_a_student_of_the_reduced_teacher(place):
    name = "lealla_small_ams_syn"
    done = smoke(name, place, QUICK, share_steps=True)
    check_student(place / name, done, "ams_syn")


def test_stages_in_bfloat16_learn_nearly_the_same(place):
    name, step = "lealla_small_ams_df", "stages/teach_thin_deep"
    losses = {}
    for precision in ("float32", "bfloat16"):
        folder, changes = place / precision, QUICK | {"precision": precision}
        given = "smoke", None, place / "store", changes
        done = run(name, folder, *given, share_steps=True)
        check_student(folder, done, "ams_df")
        losses[precision] = read_json(folder / step / "history.json")["terms"]["loss"]
        weights = load_file(folder / step / "encoder/weights.safetensors")
        assert {array.dtype.name for array in weights.values()} == {"float32"}
    assert losses["bfloat16"] != losses["float32"]
    np.testing.assert_allclose(losses["bfloat16"], losses["float32"], rtol=0.02)


def test_a_closed_form_start_has_the_cosines_of_the_closed_form(place, tmp_path):
    changes = QUICK | {"student.start": "ridge", "starts.closed_form": True}
    options = {"overrides": changes, "share_steps": True}
    name, store = "lealla_small_ams_fd", place / "store"
    run(name, place / "ridge", "smoke", None, store, **options)
    stages, recipe = place / "ridge/stages", load_recipe(name, "smoke", changes)
    closed = load_encoder(stages / "closed_form_b16/encoder")
    texts = ["The dog sees the house.", "Der Hund sieht das Haus.", "Ein Haus"]
    wanted = closed.encode(texts)
    assert np.ptp(wanted @ wanted.T) > 0.1
    # Of distillation first, whose student has the teacher's width while training.
    wide = Run(recipe, SimpleNamespace(step=stages.joinpath), (), store)
    shape = prepare.thin_deep_shape(recipe.student)
    prepare.thin_deep_student(wide, tmp_path, shape, output_dim=32, ridge=True)
    for folder, dim in ((stages / "untrained", 16), (tmp_path, 32)):
        student = load_encoder(folder / "encoder")
        config = student.config
        assert config.num_layers == 2 and student.dim == config.projection_dim == dim
        assert config.pooling == "mean"
        assert (config.max_positions, config.num_types) == (512, 2)
        found = student.encode(texts)
        np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-5)
    before, trained = (
        load_encoder(stages / step / "encoder").weights()
        for step in ("untrained", "teach_thin_deep")
    )
    for path, value in before.items():
        assert np.any(trained[path] != value), path


@pytest.mark.parametrize("way", ["fd", "df", "syn"])
def test_a_fitted_start_is_nearer_to_the_teacher(way, place):
    name, losses = f"lealla_small_ams_{way}", {}
    for begun in ("random", "fitted"):
        folder = place / f"{way}_{begun}"
        changes = QUICK | {
            "student.start": "ridge",
            "stages.teach_thin_deep.dense_start": begun,
            "stages.teach_thin_deep.learning_rate": 1e-9,
        }
        run(name, folder, "smoke", None, place / "store", changes, share_steps=True)
        history = read_json(folder / "stages/teach_thin_deep/history.json")
        losses[begun] = history["terms"]["ams" if way == "df" else "feature"][0]
        assert (folder / "stages/dense").exists() == (
            way != "syn" and begun == "fitted"
        )
    assert losses["fitted"] < 0.9 * losses["random"]


def test_a_closed_form_is_no_wider_than_the_teacher(place):
    changes = {"student.start": "ridge", "student.hidden_dim": 64}
    with pytest.raises(InputError, match="dimension, 32.*student of width 64"):
        run("lealla_lab", place / "wide", "smoke", None, place / "store", changes)


def test_dimension_reduction_scores_the_teacher_at_each_width(place):
    done = smoke("lealla_dimensions", place, QUICK, share_steps=True)
    rows = {row["kind"]: row for row in done["rows"]}
    assert list(rows) == ["teacher", "reduced_16", "reduced_8"]
    assert rows["reduced_16"]["dim"] == 16
    kept = [rows[kind]["tracks"]["en"] for kind in ("teacher", "reduced_16")]
    assert kept[0] > kept[1] > 20
    matrix = np.load(place / "lealla_dimensions/stages/reduced_8/reduction.npy")
    assert matrix.shape == (32, 8)
