"""WordPiece and byte pairs against the library `tokenizers`."""

import json

import pytest
from tokenizer_files import write_byte_pairs, write_wordpiece

from keras_msd.checks import InputError
from keras_msd.tokenizers.loading import load_tokenizer, read_checkpoint_tokenizer

LINES = "[PAD] [UNK] [CLS] [SEP] [MASK] un ##aff ##able Un cafe café [ ] sep ! 日 a"
IDS = {piece: number for number, piece in enumerate(LINES.split())}


def write_vocabulary(folder, **fields):
    write_wordpiece(folder, LINES.split(), **fields)


def named(tokenizer, text):
    pieces = tokenizer.pieces()
    return " ".join(pieces[number] for number in tokenizer.encode([text])[0])


def test_uncased_vocabulary_by_hand(tmp_path):
    write_vocabulary(tmp_path)
    tokenizer = read_checkpoint_tokenizer(tmp_path)
    assert tokenizer.pieces() == LINES.split()
    assert tokenizer.vocabulary_size == len(IDS)
    special = (tokenizer.pad_id, tokenizer.unknown_id)
    assert special + (tokenizer.start_id, tokenizer.end_id) == (0, 1, 2, 3)
    for text, result in {
        "Unaffable!": "un ##aff ##able !",
        "CAFÉ": "cafe",
        "日日a": "日 日 a",
        "[SEP]": "[ sep ]",
        "unknown": "[UNK]",
        "": "",
        "a" * 101: "[UNK]",
        "a\x00\u200d": "a",
    }.items():
        assert named(tokenizer, text) == f"[CLS] {result} [SEP]".replace("  ", " ")


def test_cased_vocabulary_by_hand(tmp_path):
    write_vocabulary(tmp_path, do_lower_case=False, tokenize_chinese_chars=False)
    tokenizer = read_checkpoint_tokenizer(tmp_path)
    assert named(tokenizer, "Unaffable café") == "[CLS] Un ##aff ##able café [SEP]"
    assert named(tokenizer, "CAFÉ 日日") == "[CLS] [UNK] [UNK] [SEP]"


def test_damaged_files_are_refused(tmp_path):
    with pytest.raises(
        InputError, match="must hold the tokenizer.json of the model.*save_pretrained"
    ):
        read_checkpoint_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="is not a tokenizer.json"):
        read_checkpoint_tokenizer(tmp_path)


def test_saved_settings_are_checked(tmp_path):
    write_vocabulary(tmp_path)
    read_checkpoint_tokenizer(tmp_path).save(tmp_path / "saved")
    config = tmp_path / "saved" / "tokenizer_config.json"
    fields = json.loads(config.read_text())
    config.write_text(json.dumps(fields | {"auto_map": "a.b"}))
    with pytest.raises(InputError, match="Received: auto_map, end_token"):
        load_tokenizer(tmp_path / "saved")
    (tmp_path / "saved" / "tokenizer.json").write_text("[]")
    config.write_text(json.dumps(fields))
    with pytest.raises(InputError, match="is not a tokenizer.json"):
        load_tokenizer(tmp_path / "saved")


LABSE_PIECES = 501_153


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


def test_prefix_space_comes_from_the_configuration(tmp_path):
    pieces, merges = ["h", "e", "l", "Ġ", "he", "Ġhe"], [("h", "e"), ("Ġ", "he")]
    for prefix, first in ((True, "Ġhe"), (False, "he")):
        write_byte_pairs(tmp_path, pieces, merges, add_prefix_space=prefix)
        tokenizer = read_checkpoint_tokenizer(tmp_path)
        assert named(tokenizer, "hel") == f"<s> {first} l </s>"
