"""Runs of LEALLA's recipes: students of every kind and start, the reduced teacher."""

import json

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file
from test_recipes_papers import QUICK, smoke

from keras_msd.checks import InputError
from keras_msd.io.files import read_json
from keras_msd.load import load_encoder
from keras_msd.recipes import run

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("thin_deep")


@pytest.mark.parametrize("loss", ["ams_df", "ams_syn"])
def test_thin_deep_students(place, loss):
    name = f"lealla_small_{loss}"
    done = smoke(name, place, QUICK, share_steps=True)
    assert [row["name"] for row in done["rows"]] == [
        "teacher", "student, teach_thin_deep",
    ]  # fmt: skip
    student = load_encoder(place / name / "student")
    assert student.dim == 16 and student.config.num_layers == 2
    assert student.config.pooling == "cls" and student.config.num_types == 2
    assert student.config.max_positions == 512
    history = json.loads(
        (place / name / "stages/teach_thin_deep/history.json").read_text()
    )
    assert history["terms"].keys() == {"loss", "ams", "feature"}
    start = load_encoder(place / name / "stages/untrained/encoder")
    assert (start.dim == 32) == (loss == "ams_df")  # the teacher's width while training
    matrix = place / name / "stages/reduction/reduction.npy"
    assert matrix.exists() == (loss == "ams_syn")


def test_stages_in_bfloat16_learn_nearly_the_same(place):
    name, step = "lealla_small_ams_df", "stages/teach_thin_deep"
    losses = {}
    for precision in ("float32", "bfloat16"):
        folder, changes = place / precision, QUICK | {"precision": precision}
        run(name, folder, "smoke", None, place / "store", changes, share_steps=True)
        losses[precision] = read_json(folder / step / "history.json")["terms"]["loss"]
        weights = load_file(folder / step / "encoder/weights.safetensors")
        assert {array.dtype.name for array in weights.values()} == {"float32"}
    assert losses["bfloat16"] != losses["float32"]
    np.testing.assert_allclose(losses["bfloat16"], losses["float32"], rtol=0.02)


@pytest.mark.parametrize("feature", ["fd", "distillation_first"])
def test_a_closed_form_start_has_the_cosines_of_the_closed_form(place, feature):
    begin = {"student.start": "ridge", "stages.teach_thin_deep.feature": feature}
    name = f"lealla_ridge_{feature}"
    changes = QUICK | begin | {"starts.closed_form": True}
    options = {"overrides": changes, "share_steps": True}
    run("lealla_small_ams_fd", place / name, "smoke", None, place / "store", **options)
    stages = place / name / "stages"
    student = load_encoder(stages / "untrained/encoder")
    config = student.config
    assert config.num_layers == 2 and student.dim == (16 if feature == "fd" else 32)
    assert config.projection_dim == student.dim and config.pooling == "mean"
    assert (config.max_positions, config.num_types) == (512, 2)
    closed = load_encoder(stages / "closed_form_b16/encoder")
    texts = ["The dog sees the house.", "Der Hund sieht das Haus.", "Ein Haus"]
    found, wanted = student.encode(texts), closed.encode(texts)
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-5)
    assert np.ptp(wanted @ wanted.T) > 0.1
    trained = load_encoder(stages / "teach_thin_deep/encoder").weights()
    for path, value in student.weights().items():
        if feature == "fd" or not path.startswith("projection/"):
            assert np.any(trained[path] != value), path


def test_a_closed_form_is_no_wider_than_the_teacher(place):
    changes = {"student.start": "ridge", "student.hidden_dim": 64}
    with pytest.raises(InputError, match="dimension, 32.*student of width 64"):
        run("lealla_lab", place / "wide", "smoke", None, place / "store", changes)


@pytest.mark.slow
def test_a_headline_recipe_leaves_an_artefact(place):
    tf.config.run_functions_eagerly(False)  # an export is made of graphs
    done = smoke("lealla_small", place, QUICK, share_steps=True)
    (artefact,) = done["artefacts"]
    student = load_encoder(place / "lealla_small" / "student")
    texts = ["The dog sees the house.", "Der Hund sieht das Haus."]
    np.testing.assert_allclose(
        load_encoder(artefact).encode(texts), student.encode(texts), atol=1e-5
    )


def test_dimension_reduction_scores_the_teacher_at_each_width(place):
    done = smoke("lealla_dimensions", place, QUICK, share_steps=True)
    rows = {row["kind"]: row for row in done["rows"]}
    assert list(rows) == ["teacher", "reduced_16", "reduced_8"]
    assert rows["reduced_16"]["dim"] == 16
    kept = [rows[kind]["tracks"]["en"] for kind in ("teacher", "reduced_16")]
    assert kept[0] > kept[1] > 20
    matrix = np.load(place / "lealla_dimensions/stages/reduced_8/reduction.npy")
    assert matrix.shape == (32, 8)
