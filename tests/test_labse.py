"""LaBSE-shaped checkpoints, against what `sentence-transformers` answered."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizer_files import write_wordpiece

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


@pytest.mark.parametrize("checkpoint", NAMES, indirect=True)
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
    teacher = load_teacher(folder)
    assert (teacher.name, teacher.dim, teacher.normalized) == (folder.name, 12, True)
    np.testing.assert_allclose(teacher.encode(TEXTS), expected, atol=TOLERANCE, rtol=0)


def test_case_counts_where_the_vocabulary_is_cased():
    shouted = [text.upper() for text in TEXTS[:2]]
    for name in NAMES:
        tokenizer = load_encoder(GOLDEN / "labse" / name).tokenizer
        same = tokenizer.encode(shouted) == tokenizer.encode(TEXTS[:2])
        assert same == (name == "uncased")


@pytest.mark.slow
def test_a_vocabulary_of_labses_size(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Hund", "##e", "hund"]
    rest = [f"w{row}" for row in range(LABSE_PIECES - len(pieces))]
    settings = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
    write_wordpiece(tmp_path, [*pieces, *rest], **settings)
    tokenizer = read_checkpoint_tokenizer(tmp_path)
    assert tokenizer.vocabulary_size == LABSE_PIECES
    last = LABSE_PIECES - 1
    assert tokenizer.encode([f"Hunde hund {rest[-1]}!"]) == [[2, 5, 6, 7, last, 1, 3]]
