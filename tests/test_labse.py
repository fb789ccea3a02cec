"""LaBSE-shaped checkpoints, against what `sentence-transformers` answered."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizer_files import write_wordpiece

from keras_msd.checkpoints.checkpoint import read_dense
from keras_msd.checkpoints.weights import read_checkpoint
from keras_msd.load import load_encoder, load_teacher
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer

pytestmark = pytest.mark.usefixtures("no_graphs")

GOLDEN = Path(__file__).parent / "golden"
TEXTS = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))
NAMES = ("cased", "uncased")
TOLERANCE = 1e-5
LABSE_PIECES = 501_153


@pytest.fixture
def checkpoint(request, tmp_path):
    """Return a copy of a checkpoint and its vectors."""
    folder = tmp_path / request.param
    shutil.copytree(GOLDEN / "labse" / request.param, folder)
    expected = load_file(folder / "expected.safetensors")["vectors"]
    (folder / "expected.safetensors").unlink()
    return folder, expected


both = pytest.mark.parametrize("checkpoint", NAMES, indirect=True)


@both
def test_vectors_are_those_of_sentence_transformers(checkpoint):
    folder, expected = checkpoint
    encoder = load_encoder(folder)
    config = encoder.config
    assert (config.pooling, config.projection_activation) == ("cls", "tanh")
    assert (config.normalize, config.num_types, encoder.dim) == (True, 2, 12)
    assert (config.max_length, config.max_positions) == (16, 40)
    lengths = [len(ids) for ids in encoder.tokenizer.encode(TEXTS)]
    assert min(lengths) == 2 and max(lengths) > 16  # so that sentences are cut
    found = encoder.encode(TEXTS, batch_size=3)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)


def test_case_counts_where_the_vocabulary_is_cased():
    shouted = [text.upper() for text in TEXTS[:2]]
    for name in NAMES:
        tokenizer = load_encoder(GOLDEN / "labse" / name).tokenizer
        same = tokenizer.encode(shouted) == tokenizer.encode(TEXTS[:2])
        assert same == (name == "uncased")


@both
def test_it_is_a_teacher(checkpoint):
    folder, expected = checkpoint
    teacher = load_teacher(folder)
    assert (teacher.name, teacher.dim, teacher.normalized) == (folder.name, 12, True)
    np.testing.assert_allclose(teacher.encode(TEXTS), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("checkpoint", ["cased"], indirect=True)
def test_no_tensor_is_ignored(checkpoint):
    folder, expected = checkpoint
    encoder = load_encoder(folder)
    arrays = encoder.weights()
    files = [folder / "model.safetensors", folder / "2_Dense" / "model.safetensors"]
    seen = set()
    for path in files:
        whole = load_file(path)
        for key in whole:
            save_file(whole | {key: np.zeros_like(whole[key])}, path)
            _, dense = read_dense(folder / "2_Dense", 12)
            changed = read_checkpoint(folder)[1] | dense
            paths = [name for name in arrays if (changed[name] != arrays[name]).any()]
            if key.startswith("pooler."):  # sentence-transformers leaves it out, too
                assert paths == [], key
                continue
            assert len(paths) == 1, key
            seen.update(paths)
            encoder.set_weights(changed)
            error = np.abs(encoder.encode(TEXTS) - expected).max()
            # A key bias adds the same number to every score of a query, which the
            # softmax takes away: it can be seen in the weights alone.
            if not paths[0].endswith("/key/bias"):
                assert error > 1000 * TOLERANCE, key
        save_file(whole, path)
    assert seen == set(arrays)


def test_a_vocabulary_of_labses_size(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Hund", "##e", "hund"]
    rest = [f"w{row}" for row in range(LABSE_PIECES - len(pieces))]
    settings = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
    write_wordpiece(tmp_path, [*pieces, *rest], **settings)
    tokenizer = read_checkpoint_tokenizer(tmp_path)
    assert tokenizer.vocabulary_size == LABSE_PIECES
    last = LABSE_PIECES - 1
    assert tokenizer.encode([f"Hunde hund {rest[-1]}!"]) == [[2, 5, 6, 7, last, 1, 3]]
