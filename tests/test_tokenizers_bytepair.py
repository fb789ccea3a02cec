import tokenizers
from tokenizer_files import FRAME, write_byte_pairs
from tokenizer_texts import CORPUS, made_texts
from tokenizers import decoders, pre_tokenizers, processors, trainers

from keras_msd.tokenizers.loading import load_tokenizer, read_checkpoint_tokenizer

LETTERS = ["h", "e", "l", "o", "Ġ", "<", ">", "s", "/"]
MERGES = [("h", "e"), ("l", "l"), ("Ġ", "he")]
PIECES = FRAME + LETTERS + ["he", "ll", "Ġhe"]


def named(tokenizer, text):
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
        assert named(tokenizer, text) == ["<s>", *result, "</s>"]


def test_prefix_space_comes_from_the_configuration(tmp_path):
    for prefix, first in ((True, "Ġhe"), (False, "he")):
        write_byte_pairs(tmp_path, PIECES[4:], MERGES, add_prefix_space=prefix)
        tokenizer = read_checkpoint_tokenizer(tmp_path)
        assert named(tokenizer, "hell") == ["<s>", first, "ll", "</s>"]


def test_published_tokenizer_json_keeps_its_ids(tmp_path):
    own = tokenizers.Tokenizer(tokenizers.models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[*FRAME, "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    own.train_from_iterator(CORPUS, trainer)
    own.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    own.enable_truncation(16)
    own.enable_padding(length=16, pad_id=1, pad_token="<pad>")
    own.save(str(tmp_path / "tokenizer.json"))
    own.no_truncation()
    own.no_padding()
    tokenizer = read_checkpoint_tokenizer(tmp_path)
    texts = made_texts()
    ours = tokenizer.encode(texts)
    theirs = [row.ids for row in own.encode_batch(texts)]
    differ = {t for t, a, b in zip(texts, theirs, ours, strict=True) if a != b}
    names = [*FRAME, "<mask>"]
    assert differ == {text for text in texts if any(name in text for name in names)}
    for text, ids in zip(texts, tokenizer.encode_plain(texts), strict=True):
        assert own.decode(ids) == text
    tokenizer.save(tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    assert again.encode(texts) == ours
    assert again.fingerprint == tokenizer.fingerprint
