"""Prompts and similarity functions: of encoders, teachers, folders and artefacts."""

import json
import pickle
from typing import get_args

import numpy as np
import pytest

import keras_msd as msd
from keras_msd import load_encoder, load_teacher
from keras_msd.arrays import TextEncoder
from keras_msd.checkpoints.checkpoint import read_usage
from keras_msd.checks import InputError
from keras_msd.choices import Similarity
from keras_msd.evaluate import passages
from keras_msd.models.trim import trim_vocabulary
from keras_msd.stages import TeachStudent
from keras_msd.testing import tiny_encoder
from keras_msd.usage import Usage

pytestmark = pytest.mark.usefixtures("no_graphs")

TEXTS = ["The cat sleeps.", "Die Katze schläft.", ""]
DOG = "The dog: "
PROMPTED = [DOG + text for text in TEXTS]
GRADED = [(1, "a cat", "a dog"), (0, "a cat", "the sea")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompts") / "encoder"
    tiny_encoder(num_layers=1).save(folder)
    return folder


@pytest.fixture(scope="module")
def plain(folder):
    return load_encoder(folder)


@pytest.fixture(scope="module")
def prompted(folder):
    return load_encoder(folder, prompts={"dog": DOG}, default_prompt_name="dog")


def test_an_encoder_puts_its_default_prompt_before_every_text(plain, prompted):
    known = plain.encode(PROMPTED)
    assert abs(known - plain.encode(TEXTS)).max() > 0.01
    np.testing.assert_allclose(prompted.encode(TEXTS), known, atol=1e-6)
    np.testing.assert_allclose(prompted.encode(TEXTS[0]), known[0], atol=1e-6)
    block = plain.embedding_guide().encode(PROMPTED)
    np.testing.assert_allclose(
        prompted.embedding_guide().encode(TEXTS), block, atol=1e-6
    )


LEFT = np.array([[1, 2, -2], [0.5, 0, 1]], np.float32)
RIGHT = np.array([[2, 0, 1], [0, 0, 0], [-1, 4, 0.5]], np.float32)
VECTORS = dict(zip("abcde", [*LEFT, *RIGHT], strict=True))


class Known(TextEncoder):
    """Keeps the texts that it reads, and gives vectors by their last letters."""

    dim, max_length = 3, 9

    def __init__(self, usage, normalized=False):
        self._usage, self.normalized = usage, normalized

    def count_tokens(self, texts):
        return None

    def _vectors(self, texts, batch_size, progress):
        self.read = texts
        return np.stack([VECTORS[text[-1]] for text in texts])


# What SentenceTransformer 6.2.0 puts before a text for these settings of
# config_sentence_transformers.json, in `encode`, `encode_query`, `encode_document`.
USES = [
    ({}, ["", "", ""]),
    ({"prompts": {"query": "Q ", "document": "D "}}, ["", "Q ", "D "]),
    ({"prompts": {"query": "Q ", "passage": "P "}}, ["", "Q ", ""]),
    ({"prompts": {"x": "X "}, "default_prompt_name": "x"}, ["X ", "", ""]),
    ({"prompts": {"query": "Q "}, "default_prompt_name": "query"}, ["Q ", "Q ", ""]),
    ({"prompts": {}, "default_prompt_name": "query"}, ["", "", ""]),
    ({"prompts": {"query": "Q ", "document": None}}, ["", "Q ", ""]),
]


@pytest.mark.parametrize(("settings", "expected"), USES)
def test_prompts_mean_what_they_mean_in_sentence_transformers(
    settings, expected, tmp_path, caplog
):
    path = tmp_path / "config_sentence_transformers.json"
    path.write_text(json.dumps(settings))
    echo = Known(read_usage(tmp_path))
    said = 'the prompt "passage" is not used for documents' in caplog.text
    assert said == ("passage" in settings.get("prompts", {}))
    found = []
    for encode in (echo.encode, echo.encode_query, echo.encode_document):
        encode(["a"])
        found.append(echo.read[0].removesuffix("a"))
    assert found == expected
    for encode in (echo.encode, echo.encode_query):
        encode("a", prompt="p: ")
        assert echo.read == ["p: a"]
        encode("a", prompt_name="document")
        assert echo.read == [expected[2] + "a"]
    with pytest.raises(InputError, match="`prompt_name` must be one of 'query'"):
        echo.encode("a", prompt_name="nobody")
    with pytest.raises(InputError, match="`prompt_name` or `prompt`"):
        echo.encode("a", prompt_name="query", prompt="p: ")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"prompts": {"a": "A "}, "default_prompt_name": "b"}, "a, document, query"),
        ({"prompts": {"a": "A "}, "default_prompt_name": 5}, "default_prompt_name"),
        ({"default_prompt_name": {"a": 1}}, "default_prompt_name"),
        ({"prompts": {"a": 1}}, "prompts.a"),
        ({"prompts": ["a"]}, "`prompts`"),
        ({"similarity_fn_name": "maxsim"}, "similarity_fn_name.*maxsim"),
        ({"model_type": "SparseEncoder"}, "`model_type`.*SparseEncoder"),
        ({"truncate_dim": 4}, "`truncate_dim`.*Received: 4"),
    ],
)
def test_what_does_not_fit_is_refused(settings, match, tmp_path):
    path = tmp_path / "config_sentence_transformers.json"
    path.write_text(json.dumps(settings))
    with pytest.raises(InputError, match=match):
        read_usage(tmp_path)


def test_search_uses_the_prompts_of_both_sides(folder, plain):
    asking = load_encoder(folder, prompts={"query": DOG, "document": "A cat. "})
    found = msd.search(asking, TEXTS[0], [TEXTS[1], "Radio"], top=2)
    query = plain.encode([DOG + TEXTS[0]])
    texts = plain.encode(["A cat. " + TEXTS[1], "A cat. Radio"])
    expected = plain.similarity(query, texts)[0]
    by_place = {match.place: match.cosine for match in found}
    np.testing.assert_allclose([by_place[0], by_place[1]], expected, atol=1e-5)


def test_prompts_are_saved_and_can_be_taken_away(plain, prompted, tmp_path):
    prompted.save(tmp_path / "saved")
    for again in (
        load_encoder(tmp_path / "saved"),
        pickle.loads(pickle.dumps(prompted)),
    ):
        assert (again.prompts["dog"], again.default_prompt_name) == (DOG, "dog")
        assert again.fingerprint == prompted.fingerprint != plain.fingerprint
    other = load_encoder(tmp_path / "saved", default_prompt_name="query")
    assert (other.prompts["dog"], other.default_prompt) == (DOG, "")
    without = load_encoder(tmp_path / "saved", prompts={})
    assert without.fingerprint == plain.fingerprint


def test_trimming_keeps_the_prompts_and_their_tokens(prompted):
    trimmed = trim_vocabulary(prompted, ["Katze"] * 3, min_count=1)
    assert trimmed.prompts == prompted.prompts
    for prompt in (None, ""):
        np.testing.assert_allclose(
            trimmed.encode(["Katze"], prompt=prompt),
            prompted.encode(["Katze"], prompt=prompt),
            atol=1e-6,
        )


def test_a_teachers_prompt_takes_the_place_of_its_encoders(folder, plain, prompted):
    known = plain.encode(PROMPTED)
    for source in (folder, plain, prompted):
        teacher = load_teacher(source, prompt=DOG)
        np.testing.assert_allclose(teacher.encode(TEXTS), known, atol=1e-6)
    bare = load_teacher(prompted, prompt="")
    np.testing.assert_allclose(bare.encode(TEXTS), plain.encode(TEXTS), atol=1e-6)
    prints = {load_teacher(plain, prompt=p).fingerprint for p in (None, "a", "b")}
    assert len(prints) == 3


def test_training_with_a_default_prompt_is_refused(prompted):
    with pytest.raises(InputError, match=r"A stage trains.*prompts=\{\}"):
        TeachStudent(prompted)


def test_an_artefact_carries_prompts_and_similarity(folder, plain, tmp_path):
    prompts = {"query": DOG, "x": "Radio "}
    encoder = load_encoder(folder, None, prompts, "x", "dot")
    path = encoder.export(tmp_path / "onnx", "onnx", sentences=TEXTS, sts=GRADED)
    artefact = load_encoder(path)
    assert artefact.prompts == encoder.prompts
    assert artefact.similarity_fn_name == "dot"
    expected = plain.encode(["Radio " + text for text in TEXTS])
    np.testing.assert_allclose(artefact.encode(TEXTS), expected, atol=1e-5)
    expected = plain.encode(PROMPTED)
    np.testing.assert_allclose(artefact.encode_query(TEXTS), expected, atol=1e-5)
    page = (path / "README.md").read_text()
    assert '| `query` | `"The dog: "` |' in page and "`x` (default)" in page
    assert "high dot product" in page
    prints = {artefact.fingerprint}
    card = json.loads((path / "card.json").read_text())
    for change in ({"prompts": {"x": "Tee "}}, {"default_prompt_name": "query"}):
        (path / "card.json").write_text(json.dumps(card | change))
        prints.add(load_encoder(path).fingerprint)
    assert len(prints) == 3
    with pytest.raises(InputError, match="prompt="):
        load_encoder(path, prompts={})


def test_a_folder_for_the_hub_has_prompts_and_similarity(folder, plain, tmp_path):
    encoder = load_encoder(folder, None, {"query": DOG, "x": "X"}, "x", "euclidean")
    path = encoder.export(
        tmp_path / "a", "huggingface", sentences=TEXTS, sts=GRADED, leave_out=["int8"]
    )
    written = json.loads((path / "config_sentence_transformers.json").read_text())
    assert written["prompts"] == {"query": DOG, "x": "X"}
    assert written["default_prompt_name"] == "x"
    assert written["similarity_fn_name"] == "euclidean"
    again = load_encoder(path)
    assert again.prompts == encoder.prompts and again.default_prompt == "X"
    expected = plain.encode(PROMPTED)
    np.testing.assert_allclose(again.encode_query(TEXTS), expected, atol=1e-5)


# `SimilarityFunction.to_similarity_fn(name)(LEFT, RIGHT)` of sentence-transformers 6.2.
SIMILAR = {
    "cosine": [[0, 0, 0.481543], [0.8, 0, 0]],
    "dot": [[0, 0, 6], [2, 0, 0]],
    "euclidean": [[-3.741658, -3, -3.774917], [-1.5, -1.118034, -4.301162]],
    "manhattan": [[-6, -5, -6.5], [-1.5, -1.5, -6]],
}


@pytest.mark.parametrize("name", get_args(Similarity))
def test_similarities_are_those_of_sentence_transformers(name):
    encoder = Known(Usage(similarity_fn_name=name))
    found = encoder.similarity(LEFT, RIGHT)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, SIMILAR[name], atol=1e-5)
    of_texts = encoder.similarity(["a", "b"], ["c", "d", "e"])
    np.testing.assert_allclose(of_texts, found, atol=1e-6)
    # Graded pairs are compared in the same way.
    pairs = [(0, 0, "a", "c"), (0, 2, "a", "e"), (1, 0, "b", "c"), (1, 2, "b", "e")]
    rows = [(SIMILAR[name][i][j], one, two) for i, j, one, two in pairs]
    assert msd.evaluate.sts(encoder, rows)["spearman"] == 100.0


def test_what_searches_by_cosine_refuses_other_similarities():
    encoder, texts = Known(Usage(similarity_fn_name="manhattan")), ["a", "b"]
    given = passages.PassageSet({"q": "a"}, {"p": "b"}, {"q": {"p": 1}})
    for work in (
        lambda: msd.search(encoder, "a", texts),
        lambda: msd.evaluate.mine(encoder, ["a"], ["b"]),
        lambda: msd.evaluate.mine_paraphrases(encoder, texts),
        lambda: msd.evaluate.calibrate_threshold(encoder, [("a", "b")]),
        lambda: passages.score_passages(encoder, {"one": given}),
    ):
        with pytest.raises(
            InputError, match="by cosine.*manhattan.*`encoder.similarity`"
        ):
            work()
    # Of units the dot product is the cosine.
    units = Known(Usage(similarity_fn_name="dot"), normalized=True)
    assert msd.search(units, "a", texts)[0].cosine == 1.0


def test_a_similarity_function_is_saved_and_changes_no_fingerprint(
    folder, plain, tmp_path
):
    other = load_encoder(folder, similarity_fn_name="manhattan")
    assert other.fingerprint == plain.fingerprint
    other.save(tmp_path / "saved")
    assert load_encoder(tmp_path / "saved").similarity_fn_name == "manhattan"
    with pytest.raises(InputError, match="Did you mean `euclidean`"):
        load_encoder(folder, similarity_fn_name="euclid")
