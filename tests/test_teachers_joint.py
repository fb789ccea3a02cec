"""Teachers side by side: cosines, standardised cosines, languages, fingerprints."""

import numpy as np
import pytest

from keras_msd import load_teacher
from keras_msd.checks import InputError
from keras_msd.data import GuideStore
from keras_msd.teachers import JointTeacher, Teacher

TEXTS = [f"{a} {b} {c}" for a in "The A My".split() for b in "cat dog".split()
         for c in "sleeps runs eats sings".split()]  # fmt: skip


class Narrow:
    """A teacher whose cosines all lie near one, as those of e5 do."""

    dim, normalized, fingerprint, languages = 16, True, "narrow", ("en", "de", "ja")

    def encode(self, texts):
        vectors = load_teacher("hashed-words", dim=16).encode(texts)
        return 0.2 * vectors + 1

    name = "narrow"


def wide(**given):
    return load_teacher("hashed-words", dim=256, **given)


def cosines(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def test_cosines_are_the_weighted_mean_of_the_teachers_own():
    joint = JointTeacher([Narrow(), wide()], weights=[1, 3])
    vectors = joint.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), joint.dim) == (24, 272)
    assert vectors.dtype == np.float32
    a, b = (cosines(guide.encode(TEXTS)) for guide in (Narrow(), wide()))
    np.testing.assert_allclose(vectors @ vectors.T, (a + 3 * b) / 4, atol=1e-5)


def test_with_center_every_teachers_cosines_spread_alike():
    joint = JointTeacher([Narrow(), wide()], center=TEXTS)
    vectors = joint.encode(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    parts = vectors[:, :16], vectors[:, 16:]
    spreads = [float(np.std(part @ part.T)) for part in parts]
    assert spreads[0] == pytest.approx(spreads[1], rel=1e-3)
    for guide, part in zip((Narrow(), wide()), parts, strict=True):
        centred = guide.encode(TEXTS) - guide.encode(TEXTS).mean(axis=0)
        np.testing.assert_allclose(cosines(part), cosines(centred), atol=1e-4)
    # Without it the narrow one's cosines hardly count.
    plain = JointTeacher([Narrow(), wide()]).encode(TEXTS)
    narrow, broad = (np.std(p @ p.T) for p in (plain[:, :16], plain[:, 16:]))
    assert narrow < broad / 5


def test_weights_count_beside_center():
    joint = JointTeacher([Narrow(), wide()], weights=[1, 4], center=TEXTS)
    vectors = joint.encode(TEXTS)
    narrow, broad = (np.std(p @ p.T) for p in (vectors[:, :16], vectors[:, 16:]))
    assert broad == pytest.approx(4 * narrow, rel=1e-3)


def test_a_list_is_a_teacher(tmp_path):
    teacher = load_teacher([load_teacher(Narrow(), name="n"), wide()])
    assert isinstance(teacher, Teacher)
    assert (teacher.name, teacher.dim) == ("n+hashed-words", 272)
    assert teacher.normalized and teacher.languages == ("en", "de", "ja")
    known = JointTeacher([Narrow(), wide()])
    np.testing.assert_array_equal(teacher.encode(TEXTS), known.encode(TEXTS))
    store = GuideStore(teacher, tmp_path)
    np.testing.assert_array_equal(store.targets(TEXTS), known.encode(TEXTS))


def test_languages_are_those_that_all_read():
    english, any_language = wide(languages=["fr", "en"]), wide()
    assert JointTeacher([Narrow(), english]).languages == ("en",)
    assert JointTeacher([any_language, any_language]).languages is None
    with pytest.raises(InputError, match="in common"):
        JointTeacher([Narrow(), wide(languages=["fr"])])


def test_the_fingerprint_follows_teachers_weights_and_texts():
    one, two = wide(), load_teacher("hashed-words", dim=8)
    made = [
        JointTeacher([one, two]),
        JointTeacher([two, one]),
        JointTeacher([one, two], weights=[1, 2]),
        JointTeacher([one, two], center=TEXTS),
        JointTeacher([one, two], center=TEXTS[1:]),
    ]
    assert len({joint.fingerprint for joint in made}) == len(made)
    same = JointTeacher([one, two], weights=[1, 1])
    assert same.fingerprint == made[0].fingerprint


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"guides": [wide()]}, "two teachers or more"),
        ({"guides": [wide(), wide()], "weights": [1]}, "1 weights"),
        ({"guides": [wide(), wide()], "weights": [1, 0]}, "above 0"),
        ({"guides": [wide(), wide()], "center": "text"}, "list of sentences"),
        ({"guides": [wide(), wide()], "center": ["a", "a"]}, "two different texts"),
    ],
)
def test_what_cannot_be_joined_is_refused(given, match):
    with pytest.raises(InputError, match=match):
        JointTeacher(**given)
