"""Models for MediaPipe, run by the TextEmbedder of its package as it is."""

import io
import sys

import numpy as np
import pytest
from child_process import run_python
from random_encoder import WITHOUT_NUL, cosines, random_encoder
from tokenizer_texts import CORPUS, made_texts

from keras_msd.checks import InputError
from keras_msd.export import litert as exporter
from keras_msd.export.litert_files import load_text
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, train_unigram

mediapipe = pytest.importorskip("mediapipe.tasks.python")

TEXTS = [*WITHOUT_NUL, "火车中午到达。", " \t "]


@pytest.fixture(scope="module")
def encoder():
    return random_encoder(
        train_unigram(CORPUS, 400),
        hidden_dim=32,
        intermediate_dim=64,
        bottleneck_dim=16,
        repeats=2,
    )


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "art"
    exporter.write_text(encoder, folder)
    return folder


@pytest.fixture(scope="module")
def int8(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "int8"
    exporter.write_text(encoder, folder, "int8")
    return folder


def embed(file, texts):
    """Run MediaPipe itself, with nothing of ours in between."""
    base = mediapipe.BaseOptions(model_asset_path=str(file))
    chosen = mediapipe.text.TextEmbedderOptions(base_options=base)
    with mediapipe.text.TextEmbedder.create_from_options(chosen) as embedder:
        return [embedder.embed(text).embeddings[0] for text in texts]


def test_mediapipe_gives_the_encoders_vectors(encoder, artefact, int8):
    expected = encoder.encode(TEXTS)
    found = embed(artefact / "model.tflite", TEXTS)
    vectors = np.stack([one.embedding for one in found])
    np.testing.assert_allclose(vectors, expected, atol=2e-6)
    assert np.linalg.norm(expected[0] - expected[4]) > 0.1  # they could differ
    np.testing.assert_array_equal(load_text(artefact)(TEXTS), vectors)
    small = np.stack([one.embedding for one in embed(int8 / "model.tflite", TEXTS)])
    assert 0.995 < cosines(expected, small).min() < 1 - 1e-7


def test_every_text_has_the_ids_of_python(encoder, artefact):
    # Attention and positions make the vector change with any id and any order.
    texts = made_texts(400) + ["a\0b", "\0", "one\ntwo\r\nthree"]
    found = load_text(artefact, threads=1)(texts)
    np.testing.assert_allclose(found, encoder.encode(texts), atol=5e-6)
    assert load_text(artefact)([]).shape == (0, encoder.dim)


def test_models_are_let_go_in_a_cycle_and_at_pythons_end(artefact, int8):
    # MediaPipe's own close waits for ever once the collector has ended its thread.
    shown = run_python(
        # MediaPipe keeps the error of its import of TensorFlow, with its frames.
        "import gc, weakref, mediapipe.tasks.python.text\n"
        "from keras_msd.export.litert_files import load_text as load\n"
        f"run, other = load({str(int8)!r}), load({str(artefact)!r})\n"
        "print(run(['one', 'two']).shape)\n"
        "run.itself, left = run, weakref.ref(run)\n"
        "del run; gc.collect(); print(left() is None)",
        without=["keras", "tensorflow"],
    )
    assert shown == "(2, 32)\nTrue\n"


def trained(**options):
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    own = {"normalization_rule_name": "nmt_nfkc", "vocab_size": 420, "minloglevel": 2}
    SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, **own | options
    )
    return SentencePieceTokenizer(model.getvalue())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"user_defined_symbols": ["Katze"]}, "user-defined pieces"),
        ({"add_dummy_prefix": False}, "no blank before the first word"),
        ({"normalization_rule_name": "nfkc"}, "a tab or the end of a line"),
    ],
)
def test_vocabularies_that_mediapipe_reads_otherwise(options, reason, tmp_path):
    with pytest.raises(InputError, match=f"XLM-RoBERTa does. Received: {reason}"):
        exporter.write_text(random_encoder(trained(**options)), tmp_path / "art")
    assert list(tmp_path.iterdir()) == []


def test_bad_requests(encoder, int8, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="one thread. Received: threads=2"):
        load_text(int8, threads=2)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mediapipe", None)
        with pytest.raises(InputError, match=r'pip install "\.\[mediapipe\]"'):
            exporter.write_text(encoder, tmp_path / "art")
    monkeypatch.setitem(sys.modules, "mediapipe.tasks.python.text", None)
    with pytest.raises(InputError, match=r'pip install "\.\[mediapipe\]"'):
        load_text(int8)


def test_files_that_are_no_such_model(tmp_path):
    (tmp_path / "model.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(500))
    with pytest.raises(InputError, match="not a model for MediaPipe's"):
        load_text(tmp_path)
