"""The format `huggingface`: by NumPy, `tokenizers` and onnxruntime, and read back."""

import functools
import json
import shutil

import numpy as np
import portable_cases
import pytest
from numpy_bert import backend, read, sentence_vector, token_vectors
from random_encoder import KINDS, TEXTS, cosines, random_encoder
from tokenizer_texts import CORPUS, SENTENCES, has_combining, made_texts
from tokenizers import Tokenizer

from keras_msd import load_encoder
from keras_msd.checks import InputError
from keras_msd.export import ExportError, export, load_artefact, proof
from keras_msd.export import huggingface as exporter
from keras_msd.export.huggingface import check_ids, header, write_tokenizer
from keras_msd.export.proof import UNNAMED_SET, proof_sentences
from keras_msd.models.encoder import Encoder
from keras_msd.tokenizers import loading, train_unigram
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("no_graphs")

GIVEN = {
    "sentences": TEXTS,
    "sts": [(2, "a", "b"), (1, "a", "c"), (0, "b", "c")],
    "max_sts_loss": 200,
}
GIVEN |= {"languages": ["en", "de"], "license": "Apache-2.0", "sts_name": "stsb dev"}
GIVEN |= {"base_model": "org/teacher", "datasets": ["org/pairs"]}
BERTS = {
    "student": {"pooling": "max", "projection_dim": 8, "projection_bias": False},
    "checkpoint": KINDS["checkpoint"]
    | {
        "activation": "gelu_tanh",
        "pooling": "cls",
        "projection_bias": True,
        "projection_activation": "tanh",
        "normalize": False,
    },
}
OTHERS = {
    "pre-norm": "layers that normalise first",
    "closed form": "no layers",
}
FOLDED = ["Größe GRÖẞE", "ΟΔΟΣ ὁδός", "İSTANBUL Isparta ılık"]


@pytest.fixture(scope="module", autouse=True)
def fewer_sentences():
    """Compare the parts of a folder on some of the proof's sentences."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporter, "proof_sentences", lambda: list(proof.SENTENCES))
        yield


@pytest.fixture(scope="module")
def folder_of(tokenizer, tmp_path_factory):
    """Return a function that exports an encoder once: (encoder, folder)."""

    @functools.cache
    def make(kind, *leave_out):
        encoder = random_encoder(tokenizer, **(KINDS | BERTS)[kind])
        path = tmp_path_factory.mktemp("made") / "folder"
        return encoder, export(
            encoder, path, "huggingface", leave_out=leave_out, **GIVEN
        )

    return make


def onnx_outputs(folder, texts, name="model.onnx"):
    """Return both outputs for texts, one at a time."""
    session = onnxruntime.InferenceSession(folder / "onnx" / name)
    assert [one.name for one in session.get_inputs()] == list(exporter.INPUTS)
    assert {one.type for one in session.get_inputs()} == {"tensor(int64)"}
    assert [one.name for one in session.get_outputs()] == list(exporter.OUTPUTS)
    for row in backend(folder).encode_batch(texts):
        ids = np.array([row.ids], np.int64)
        feeds = zip(exporter.INPUTS, (ids, ids**0, ids * 0), strict=True)
        yield session.run(None, dict(feeds))


# Names of special tokens in a text are those tokens in a tokenizer.json.
PLAIN = [text for text in TEXTS if "</s>" not in text]


@pytest.mark.parametrize("kind", BERTS)
def test_a_bert_in_numpy_and_onnx_give_the_vectors(kind, folder_of):
    encoder, folder = folder_of(kind)
    rows = [row.ids for row in backend(folder).encode_batch(PLAIN)]
    assert rows == encoder.tokenizer.encode(PLAIN, encoder.max_length)
    tokens = [token_vectors(folder, row) for row in rows]
    found = [sentence_vector(folder, one) for one in tokens]
    expected = encoder.encode(PLAIN)
    np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())
    hidden, vectors = zip(*onnx_outputs(folder, PLAIN), strict=True)
    for made, wanted in zip(hidden, tokens, strict=True):
        np.testing.assert_allclose(made[0], wanted, atol=2e-5)
    np.testing.assert_allclose(np.concatenate(vectors), expected, atol=1e-5)
    assert read(folder / "config.json")["num_hidden_layers"] == encoder.config.depth


@pytest.mark.parametrize("kind", BERTS)
def test_it_is_read_back_as_an_encoder(kind, folder_of):
    encoder, folder = folder_of(kind)
    again = load_encoder(folder)
    assert isinstance(again, Encoder) and again.config.bottleneck_dim is None
    assert again.config.repeats == 1 and again.max_length == encoder.max_length
    np.testing.assert_allclose(again.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)
    artefact = load_artefact(folder)
    np.testing.assert_allclose(artefact.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)
    assert load_encoder(folder, pooling="max").config.pooling == "max"


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_bert_says_what_is_in_the_way(kind, tokenizer, tmp_path):
    encoder = random_encoder(tokenizer, **KINDS[kind])
    message = rf"{OTHERS[kind]}.*leave_out=\['weights'\].*format `onnx`"
    with pytest.raises(InputError, match=message):
        export(encoder, tmp_path / "a", "huggingface", **GIVEN)
    assert not (tmp_path / "a").exists()


def test_without_weights_each_token_has_the_sentences_vector(folder_of):
    encoder, folder = folder_of("pre-norm", "weights")
    assert not (folder / "model.safetensors").exists()
    expected = encoder.encode(PLAIN)
    for name, least in (("model.onnx", 0.999999), ("model_quantized.onnx", 0.98)):
        found = list(onnx_outputs(folder, PLAIN, name))
        pooled = [sentence_vector(folder, hidden[0]) for hidden, _ in found]
        assert cosines(np.array(pooled), expected).min() > least
        assert cosines(np.concatenate([v for _, v in found]), expected).min() > least
    assert 'backend="onnx"' in (folder / "README.md").read_text()
    loaded = load_encoder(folder).encode(TEXTS)
    np.testing.assert_allclose(loaded, encoder.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_file_is_named_where_its_weights_are_read(folder_of, tmp_path, name):
    """Weights whose last half is nought still have all keys and shapes."""
    _, whole = folder_of("student")
    folder = shutil.copytree(whole, tmp_path / "copy")
    data = (folder / name).read_bytes()
    half = len(data) // 2
    (folder / name).write_bytes(data[:half] + bytes(len(data) - half))
    with pytest.raises(InputError, match=f"{name}.*checksum.*delete card.json"):
        load_encoder(folder)
    (folder / name).write_bytes(data)
    known = load_encoder(whole).encode(TEXTS, progress=False)
    card = (folder / "card.json").read_text()
    (folder / "card.json").write_text(card[: len(card) // 2])
    with pytest.raises(InputError, match="card.json.*not valid JSON.*delete card.json"):
        load_encoder(folder)
    shutil.rmtree(folder / "onnx")  # a hub's client fetches what is read alone
    for content in (card, '{"license": "mit"}'):  # of others, and none of ours
        (folder / "card.json").write_text(content)
        again = load_encoder(folder).encode(TEXTS, progress=False)
        np.testing.assert_array_equal(again, known)


def test_a_part_that_differs_is_not_kept(tokenizer, tmp_path, monkeypatch):
    encoder = random_encoder(tokenizer, repeats=1)
    wrong = exporter.write_tensors

    def swapped(encoder, path):
        wrong(encoder.with_config(), path)  # other, random weights

    monkeypatch.setattr(exporter, "write_tensors", swapped)
    with pytest.raises(ExportError, match=r"`model.safetensors` must agree.*weights"):
        export(encoder, tmp_path / "a", "huggingface", **GIVEN)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("kind", ["unigram", "folded", "wordpiece"])
def test_ids_are_those_of_the_tokenizer(kind, tokenizer, tmp_path):
    if kind == "wordpiece":
        tokenizer = portable_cases.wordpiece(tmp_path)
    if kind == "folded":
        tokenizer = train_unigram([*CORPUS, *FOLDED], 250, case_fold=True)
    (tmp_path / "a").mkdir()
    write_tokenizer(tokenizer, tmp_path / "a", 32)
    assert check_ids(tokenizer, tmp_path / "a")["texts"] > 5000
    texts = [*FOLDED, *CORPUS, *made_texts(), *proof_sentences()]
    added = backend(tmp_path / "a").get_added_tokens_decoder().values()
    texts = [text for text in texts if not any(one.content in text for one in added)]
    # The library takes letters and their marks together, as SentencePiece does not.
    texts = [t for t in texts if kind == "wordpiece" or not has_combining(t)]
    assert len(texts) > 300
    found = [row.ids for row in backend(tmp_path / "a").encode_batch(texts)]
    assert found == tokenizer.encode(texts, 32)
    again = read_checkpoint_tokenizer(tmp_path / "a")
    assert again.encode(texts) == tokenizer.encode(texts)
    assert again.pieces() == tokenizer.pieces()


def test_a_text_that_spells_a_special_token_proves_nothing(
    tokenizer, tmp_path, monkeypatch
):
    def refuse(*_):
        raise InputError("SentencePiece would give other ids")

    monkeypatch.setattr(loading, "rebuild", refuse)
    encoder, folder = random_encoder(tokenizer, repeats=1), tmp_path / "a"
    export(encoder, folder, "huggingface", leave_out=["int8"], **GIVEN)
    assert [path.name for path in (folder / "onnx").iterdir()] == ["model.onnx"]
    again = read_checkpoint_tokenizer(folder)
    spelled = [text for text in TEXTS if "</s>" in text]
    assert again.encode(spelled) != tokenizer.encode(spelled)
    assert again.encode(PLAIN) == tokenizer.encode(PLAIN)


def test_capitals_are_small_where_a_table_is_nfkc_alone(tmp_path):
    """As in transformers.js."""
    tokenizer = train_unigram([*CORPUS, *FOLDED], 250, case_fold=True)
    write_tokenizer(tokenizer, tmp_path, 32)
    content = read(tmp_path / "tokenizer.json")
    steps = content["normalizer"]["normalizers"]
    (place,) = (n for n, step in enumerate(steps) if step["type"] == "Precompiled")
    steps[place] = {"type": "NFKC"}
    plain = Tokenizer.from_str(json.dumps(content))
    texts = [*FOLDED, *map(str.upper, SENTENCES)]
    texts = [text for text in texts if not has_combining(text) and "<" not in text]
    texts = [text for text in texts if text.isprintable()]
    assert len(texts) > 10
    found = [row.ids for row in plain.encode_batch(texts)]
    assert found == tokenizer.encode(texts)


def test_header_of_the_readme(folder_of):
    yaml = pytest.importorskip("yaml")
    _, folder = folder_of("student")
    _, head, text = (folder / "README.md").read_text().split("---\n", 2)
    fields = yaml.safe_load(head)
    assert fields["language"] == ["de", "en"] and fields["license"] == "apache-2.0"
    assert fields["base_model"] == "org/teacher" and fields["datasets"] == ["org/pairs"]
    assert fields["pipeline_tag"] == "sentence-similarity"
    (result,) = fields["model-index"][0]["results"]
    card = json.loads((folder / "card.json").read_text())
    assert result["dataset"] == {"type": "stsb-dev", "name": "stsb dev"}
    score = card["parity"]["sts"]["after"]["spearman"]
    assert result["metrics"][0]["value"] == pytest.approx(score, abs=1e-3)
    assert text.lstrip().startswith("# Sentence encoder, huggingface")
    # Scores of rows without a name say nothing to others, and some licences have none.
    card["parity"]["sts"]["set"] = UNNAMED_SET
    unnamed = card | {"license": "ask: me", "base_model": None, "datasets": []}
    head = "\n".join(header(unnamed)).split("---\n")[1]
    fields = yaml.safe_load(head)
    assert (fields["license"], fields["license_name"]) == ("other", "ask: me")
    assert not {"model-index", "base_model", "datasets"} & set(fields)
