"""A text before every sentence: a setting of encoders and teachers, off in students."""

import pickle

import numpy as np
import pytest

import keras_msd as msd
from keras_msd import load_encoder, load_teacher
from keras_msd.checks import InputError
from keras_msd.models.trim import trim_vocabulary
from keras_msd.stages import TeachStudent
from keras_msd.testing import tiny_encoder

TEXTS = ["The cat sleeps.", "Die Katze schläft.", ""]
PREFIXED = ["The dog: " + text for text in TEXTS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix") / "encoder"
    tiny_encoder(num_layers=2).save(folder)
    return folder


@pytest.fixture(scope="module")
def plain(folder):
    return load_encoder(folder)


@pytest.fixture(scope="module")
def prefixed(folder):
    return load_encoder(folder, prefix="The dog: ")


def test_an_encoder_puts_its_prefix_before_every_text(plain, prefixed):
    known = plain.encode(PREFIXED)
    assert abs(known - plain.encode(TEXTS)).max() > 0.01
    np.testing.assert_allclose(prefixed.encode(TEXTS), known, atol=1e-6)
    np.testing.assert_allclose(prefixed.encode(TEXTS[0]), known[0], atol=1e-6)
    block = plain.embedding_guide().encode(PREFIXED)
    np.testing.assert_allclose(
        prefixed.embedding_guide().encode(TEXTS), block, atol=1e-6
    )


def test_the_prefix_is_saved_and_can_be_taken_away(plain, prefixed, tmp_path):
    prefixed.save(tmp_path / "saved")
    for again in (
        load_encoder(tmp_path / "saved"),
        pickle.loads(pickle.dumps(prefixed)),
    ):
        assert again.prefix == "The dog: "
        assert again.fingerprint == prefixed.fingerprint != plain.fingerprint
    without = load_encoder(tmp_path / "saved", prefix="")
    assert without.fingerprint == plain.fingerprint


def test_an_encoder_without_prefix_is_written_as_before(plain, tmp_path):
    plain.save(tmp_path / "saved")
    assert "prefix" not in (tmp_path / "saved" / "encoder.json").read_text()


def test_a_student_has_no_prefix(prefixed):
    student = msd.build_student(prefixed, unit_layers=1, bottleneck_dim=8)
    assert student.prefix == ""


def test_trimming_keeps_the_prefix_and_its_pieces(prefixed):
    trimmed = trim_vocabulary(prefixed, ["Katze"] * 3, min_count=1)
    assert trimmed.prefix == "The dog: "
    np.testing.assert_allclose(
        trimmed.encode(["Katze"]), prefixed.encode(["Katze"]), atol=1e-6
    )


def test_a_teachers_prefix_takes_the_place_of_its_encoders(folder, plain, prefixed):
    known = plain.encode(PREFIXED)
    for source in (folder, plain, prefixed):
        teacher = load_teacher(source, prefix="The dog: ")
        np.testing.assert_allclose(teacher.encode(TEXTS), known, atol=1e-6)
    bare = load_teacher(prefixed, prefix="")
    np.testing.assert_allclose(bare.encode(TEXTS), plain.encode(TEXTS), atol=1e-6)
    prints = {load_teacher(plain, prefix=p).fingerprint for p in (None, "a", "b")}
    assert len(prints) == 3


def test_any_teacher_may_have_a_prefix():
    def lengths(texts):
        return np.array([[len(text), 1.0] for text in texts])

    teacher = load_teacher(lengths, name="lengths", prefix="12345")
    assert teacher.encode(["", "abc"]).tolist() == [[5, 1], [8, 1]]
    assert teacher.fingerprint != load_teacher(lengths, name="lengths").fingerprint


def test_training_and_export_of_a_prefixed_encoder_are_refused(prefixed, tmp_path):
    with pytest.raises(InputError, match=r"A stage trains.*prefix=\"\""):
        TeachStudent(prefixed)
    with pytest.raises(InputError, match="`export` takes.*'The dog: '"):
        prefixed.export(tmp_path / "artefact")


def test_an_artefact_takes_no_prefix_when_it_is_loaded(plain, tmp_path):
    graded = [(1, "a cat", "a dog"), (0, "a cat", "the sea")]
    plain.export(tmp_path / "onnx", "onnx", sentences=TEXTS, sts=graded)
    with pytest.raises(InputError, match="prompt="):
        load_encoder(tmp_path / "onnx", prefix="query: ")
