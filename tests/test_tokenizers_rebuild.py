import json

import pytest
import tokenizers
from tokenizer_texts import CORPUS, has_combining, made_texts
from tokenizers import (
    AddedToken,
    Regex,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from keras_msd.tokenizers.loading import load_tokenizer, read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import parse, train_unigram

FRAME = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


@pytest.fixture(scope="module")
def unigram():
    return train_unigram(CORPUS, 500)


def published(unigram, style="words", mask="in vocabulary"):
    """Return the tokenizer.json that an XLM-RoBERTa checkpoint would be published with.

    The two styles are those of older and newer conversions.
    """
    proto = parse(unigram.definition)
    rows = [(name, 0.0) for name in FRAME[:4]]
    rows += [(piece.piece, piece.score) for piece in proto.pieces[3:]]
    rows += [("<mask>", 0.0)] if mask == "in vocabulary" else []
    own = tokenizers.Tokenizer(models.Unigram(rows, unk_id=3, byte_fallback=False))
    table = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    spaces = pre_tokenizers.Metaspace(prepend_scheme="always")
    if style == "words":
        own.normalizer = table
        own.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), spaces]
        )
    else:
        blanks = normalizers.Replace(Regex(" {2,}"), "▁")
        right = normalizers.Strip(left=False, right=True)
        own.normalizer = normalizers.Sequence([table, right, blanks])
        own.pre_tokenizer = spaces
    names = FRAME[:4] if mask is None else FRAME
    own.add_special_tokens([AddedToken(n, normalized=False) for n in names])
    own.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return own


@pytest.mark.parametrize("style", ["words", "blanks"])
@pytest.mark.parametrize("mask", ["in vocabulary", "added", None])
def test_rebuilt_model_is_the_model(unigram, tmp_path, style, mask):
    own = published(unigram, style, mask)
    own.save(str(tmp_path / "tokenizer.json"))
    rebuilt = read_checkpoint_tokenizer(tmp_path)
    extra = [] if mask is None else ["<mask>"]
    assert rebuilt.kind == "unigram"
    assert rebuilt.pieces() == unigram.pieces() + extra
    assert rebuilt.vocabulary_size == own.get_vocab_size()
    old, new = parse(unigram.definition), parse(rebuilt.definition)
    assert [p.score for p in new.pieces[: len(old.pieces)]] == [
        p.score for p in old.pieces
    ]
    table = old.normalizer_spec.precompiled_charsmap
    assert new.normalizer_spec.precompiled_charsmap == table
    texts = made_texts(2000)
    assert rebuilt.encode(texts) == unigram.encode(texts)


def test_ids_equal_those_of_the_tokenizers_library(unigram):
    own = published(unigram)
    own.encode_special_tokens = True
    texts = made_texts(2000)
    theirs = [row.ids for row in own.encode_batch(texts, add_special_tokens=False)]
    ours = unigram.encode_plain(texts)
    differ = {t for t, a, b in zip(texts, theirs, ours, strict=True) if a != b}
    # Where the library and SentencePiece differ: it takes names of special tokens in a
    # text for those tokens, normalises by grapheme, and counts U+0085 as a blank.
    known = [*FRAME, "\x85"]
    assert not [
        text
        for text in differ
        if not any(name in text for name in known) and not has_combining(text)
    ]
    assert len(differ) < len(texts) / 10
    assert own.encode("a </s>", add_special_tokens=False).ids[-1] == 2
    assert 2 not in unigram.encode_plain(["a </s>"])[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["model"]["vocab"].append(["▁le▁ga", -1.5]),
        lambda c: c["model"]["vocab"].append(["zz", -1.1]),
        lambda c: c.update(normalizer={"type": "Lowercase"}),
        lambda c: c.update(normalizer={"type": "NFKC"}),
        lambda c: c.update(post_processor=None),
        lambda c: c["post_processor"]["single"].pop(),
        lambda c: c["pre_tokenizer"]["pretokenizers"][1].update(replacement="_"),
        lambda c: c["pre_tokenizer"]["pretokenizers"][1].update(prepend_scheme="first"),
        lambda c: c["added_tokens"].append(
            {"id": len(c["model"]["vocab"]), "content": "new", "special": False}
            | dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
        ),
    ],
)
def test_what_sentencepiece_cannot_do_is_run_by_tokenizers(unigram, tmp_path, change):
    content = json.loads(published(unigram, mask=None).to_str())
    change(content)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    read = read_checkpoint_tokenizer(tmp_path)
    assert read.kind == "tokenizer_json"
    own = tokenizers.Tokenizer.from_file(str(path))
    own.no_truncation()
    texts = [t for t in made_texts(300) if not any(name in t for name in FRAME)]
    assert read.encode(texts) == [row.ids for row in own.encode_batch(texts)]
    assert not {0, 1, 2} & set(read.encode_plain(["a </s> b <pad>"])[0])
    own.enable_truncation(8)
    assert read.encode(texts, 8) == [row.ids for row in own.encode_batch(texts)]
    read.save(tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    assert again.encode(texts, 8) == read.encode(texts, 8)
    assert again.fingerprint == read.fingerprint


def test_bytes_of_unknown_characters_survive(unigram, tmp_path):
    content = json.loads(published(unigram, mask=None).to_str())
    count = len(content["model"]["vocab"])
    content["model"]["vocab"] += [[f"<0x{byte:02X}>", -9.0] for byte in range(256)]
    content["model"]["byte_fallback"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    read = read_checkpoint_tokenizer(tmp_path)
    assert read.kind == "tokenizer_json"
    ids = read.encode_plain(["\U0001f9ff"])[0]
    assert ids[1:] == [count + byte for byte in "\U0001f9ff".encode()]
