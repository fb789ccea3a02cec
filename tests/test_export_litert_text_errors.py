"""What the exporter for MediaPipe refuses, and files that it must not be given."""

import io
import sys

import pytest
from tokenizer_texts import CORPUS

from keras_msd.checks import InputError
from keras_msd.export import litert as exporter
from keras_msd.export.litert_files import load_text
from keras_msd.testing import tiny_encoder
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer

pytest.importorskip("mediapipe.tasks.python")


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return tiny_encoder(tokenizer, num_layers=1)


@pytest.fixture(scope="module")
def model(encoder, tmp_path_factory):
    """Return the folder of a model."""
    folder = tmp_path_factory.mktemp("models") / "art"
    exporter.write_text(encoder, folder, "int8")
    return folder


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
        ({"byte_fallback": True, "vocab_size": 680}, "byte fallback"),
        ({"user_defined_symbols": ["Katze"]}, "user-defined pieces"),
        ({"treat_whitespace_as_suffix": True}, "blanks at the end of a word"),
        ({"add_dummy_prefix": False}, "no blank before the first word"),
        ({"normalization_rule_name": "nfkc"}, "a tab or the end of a line"),
    ],
)
def test_vocabularies_that_mediapipe_reads_otherwise(options, reason, tmp_path):
    with pytest.raises(InputError, match=f"XLM-RoBERTa does. Received: {reason}"):
        exporter.write_text(tiny_encoder(trained(**options)), tmp_path / "art")
    assert list(tmp_path.iterdir()) == []


def test_bad_requests(encoder, model, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="one thread. Received: threads=2"):
        load_text(model, threads=2)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mediapipe", None)
        with pytest.raises(InputError, match=r'pip install "\.\[mediapipe\]"'):
            exporter.write_text(encoder, tmp_path / "art")
    monkeypatch.setitem(sys.modules, "mediapipe.tasks.python.text", None)
    with pytest.raises(InputError, match=r'pip install "\.\[mediapipe\]"'):
        load_text(model)


def test_files_that_are_no_such_model(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load_text(tmp_path)
    (tmp_path / "model.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(500))
    with pytest.raises(InputError, match="not a model for MediaPipe's"):
        load_text(tmp_path)
