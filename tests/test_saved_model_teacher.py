"""SavedModels in the shapes in which teachers are published, made here and loaded."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from saved_models import TEXT, letters, letters_in_graph, save

from keras_msd.checks import InputError
from keras_msd.export import export
from keras_msd.load import load_teacher
from keras_msd.teachers.teacher import saved_model_fingerprint
from keras_msd.testing import tiny_encoder

GOLDEN = Path(__file__).parent / "golden"
TEXTS = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Return an encoder and its artefact."""
    encoder = tiny_encoder(num_layers=1)
    folder = tmp_path_factory.mktemp("own") / "artefact"
    rows = [(1, "a", "b"), (0, "c", "d")]
    options = {"sentences": TEXTS, "sts": rows, "max_sts_loss": 100}
    return encoder, export(encoder, folder, **options)


@pytest.mark.parametrize("form", ["artefact", "artefact/1", "version", "bare"])
def test_our_own_export_is_a_teacher(form, own, tmp_path):
    encoder, artefact = own
    if form in ("version", "bare"):  # without its card it is anyone's SavedModel
        folder = tmp_path / "plain"
        source = artefact / "1" if form == "bare" else artefact
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("card.json"))
    else:
        folder = artefact.parent / form
    teacher = load_teacher(folder)
    wanted = encoder.encode(TEXTS)
    np.testing.assert_allclose(teacher.encode(TEXTS), wanted, atol=TOLERANCE, rtol=0)
    assert (teacher.dim, teacher.normalized) == (16, True)
    assert teacher.fingerprint == load_teacher(folder, name="again").fingerprint


TEXT_MODELS = {
    "LEALLA and USE 4": letters_in_graph,
    "USE 3": lambda texts: {"outputs": letters_in_graph(texts)},
    "float16": lambda texts: tf.cast(letters_in_graph(texts), tf.float16),
}


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_models_from_text(name, tmp_path):
    teacher = load_teacher(save(TEXT_MODELS[name], tmp_path / "use", TEXT))
    np.testing.assert_array_equal(teacher.encode(TEXTS), letters(TEXTS))
    assert (teacher.name, teacher.dim, teacher.normalized) == ("use", 3, False)
    # More than one batch, of many lengths, comes back in its order.
    many = [f"{'a' * (7 * row % 50)} {row}" for row in range(200)]
    np.testing.assert_array_equal(teacher.encode(many), letters(many))


def test_training_is_never_asked_for(tmp_path):
    def noisy(texts, training=True):
        return letters_in_graph(texts) + (1.0 if training else 0.0)

    teacher = load_teacher(save(noisy, tmp_path / "m", TEXT, training=True))
    np.testing.assert_array_equal(teacher.encode(TEXTS), letters(TEXTS))


def test_a_signature_serves_where_the_model_cannot_be_called(tmp_path):
    root = tf.Module()

    @tf.function(input_signature=[TEXT])
    def serve(inputs):
        return {"outputs": letters_in_graph(inputs)}

    @tf.function(input_signature=[TEXT])
    def question(inputs):
        return {"outputs": -letters_in_graph(inputs)}

    signatures = {"question_encoder": question, "serving_default": serve}
    tf.saved_model.save(root, str(tmp_path / "m"), signatures=signatures)
    teacher = load_teacher(tmp_path / "m")
    np.testing.assert_array_equal(teacher.encode(TEXTS), letters(TEXTS))


def test_of_several_versions_the_highest_counts(tmp_path):
    for version in (2, 10, 9):
        vectors = letters([str(version)])
        save(
            lambda texts, v=vectors: (
                v * tf.cast(tf.strings.length(texts)[:, None], tf.float32)
            ),
            tmp_path / "m" / str(version),
            TEXT,
        )
    np.testing.assert_array_equal(
        load_teacher(tmp_path / "m").encode(["x"]), letters(["10"])
    )


def test_a_fingerprint_follows_graph_variables_and_assets(tmp_path):
    (tmp_path / "a.txt").write_text("[PAD]")
    factor, asset = tf.Variable(2.0), tf.saved_model.Asset(str(tmp_path / "a.txt"))
    folder = save(
        lambda texts: factor * letters_in_graph(texts),
        tmp_path / "a",
        TEXT,
        factor=factor,
        asset=asset,
    )
    first = load_teacher(folder).fingerprint
    shutil.copytree(folder, tmp_path / "b")
    (tmp_path / "b" / "keras_metadata.pb").write_bytes(b"x")
    assert load_teacher(tmp_path / "b").fingerprint == first

    seen = {first}
    for place in (
        "saved_model.pb",
        "variables/variables.data-00000-of-00001",
        "assets/a.txt",
    ):
        path = folder / place
        content = path.read_bytes()
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        seen.add(saved_model_fingerprint(folder))
        path.write_bytes(content)
    assert len(seen) == 4


def test_a_checkpoint_beside_a_saved_model_comes_first(tmp_path):
    shutil.copytree(GOLDEN / "labse" / "cased", tmp_path / "m")
    save(letters_in_graph, tmp_path / "m", TEXT)
    assert load_teacher(tmp_path / "m").dim == 12
    (tmp_path / "m" / "modules.json").unlink()
    assert load_teacher(tmp_path / "m").dim == 12
    (tmp_path / "m" / "config.json").unlink()
    assert load_teacher(tmp_path / "m").dim == 3


def broken(folder):
    save(letters_in_graph, folder, TEXT)
    (folder / "saved_model.pb").write_bytes(b"no model")


def image(folder):
    save(lambda x: x, folder, tf.TensorSpec([None, 8, 8, 3], tf.float32))


def no_function(folder):
    tf.saved_model.save(tf.Module(), str(folder))


def fixed_batch(folder):
    save(letters_in_graph, folder, tf.TensorSpec([1], tf.string))


def question_answering(folder):
    serve = tf.function(lambda inputs: {"outputs": letters_in_graph(inputs)})
    signatures = {"question_encoder": serve.get_concrete_function(TEXT)}
    tf.saved_model.save(tf.Module(), str(folder), signatures=signatures)


def too_few_rows(folder):
    save(lambda texts: letters_in_graph(texts)[1:], folder, TEXT)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (broken, "whole SavedModel.*Take a whole copy"),
        (image, r"__call__\(TensorSpec\(shape=\(None, 8, 8, 3\).* -> TensorSpec"),
        (no_function, "nothing to call"),
        (fixed_batch, r"__call__\(TensorSpec\(shape=\(1,\), dtype=tf.string.*\(1, 3\)"),
        (
            question_answering,
            r"question_encoder\(TensorSpec\(shape=\(None,\).* -> \{'outputs'",
        ),
        (too_few_rows, r"one vector per sentence.*\(1, 3\) for 2 sentences"),
    ],
)
def test_what_gives_no_vectors_is_refused(make, words, tmp_path):
    make(tmp_path / "m")
    with pytest.raises(InputError, match=words):
        load_teacher(tmp_path / "m")
