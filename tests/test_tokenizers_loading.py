"""Published tokenizer files: the ids of the library `tokenizers`, or an error."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizer_texts import CORPUS, made_texts
from tokenizers import (
    AddedToken,
    Regex,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from keras_msd.checks import InputError
from keras_msd.export.huggingface import check_ids, write_tokenizer
from keras_msd.models.trim import choose_pieces, trim_tokenizer
from keras_msd.tokenizers.loading import load_tokenizer, read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import parse, train_unigram
from keras_msd.tokenizers.tokenizer_json import read_backend

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
FRAME = ["<s>", "<pad>", "</s>", "<unk>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "the cat sleeps hello world un café cafe 日 本 ! . , ' 1 2 0 a b e".split()
NUMBERS = {"<s>": 0, "</s>": 2, "<unk>": 3, "[CLS]": 2, "[SEP]": 3}


def framed(single):
    """Return what puts the special tokens that `single` names around a text."""
    names = [(name, number) for name, number in NUMBERS.items() if name in single]
    return processors.TemplateProcessing(single=single, special_tokens=names)


def roberta(model, **parts):
    """Return a tokenizer with the special tokens of XLM-RoBERTa."""
    own = tokenizers.Tokenizer(model)
    own.add_special_tokens([AddedToken(name, normalized=False) for name in FRAME])
    own.post_processor = framed("<s> $A </s>")
    for name, part in parts.items():
        setattr(own, name, part)
    return own


def unigram(*more, byte_fallback=False, **parts):
    rows = [(name, 0.0) for name in FRAME] + [("▁", -2.0), ("▁hello", -3.0)]
    rows += [("hello", -3.5), ("▁world", -3.0), ("world", -3.75), ("'", -5.5)]
    rows += [(piece, -6.0) for piece in ["h", "e", "l", "o", "w", "r", "d", "t", "c"]]
    rows += [(number, -5.0) for number in "120"] + [('"', -5.0), ("é", -6.0), *more]
    parts = {"pre_tokenizer": pre_tokenizers.Metaspace()} | parts
    return roberta(models.Unigram(rows, 3, byte_fallback), **parts)


def byte_pairs(merges=(), **parts):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    table = FRAME + alphabet + ["".join(pair) for pair in merges]
    model = models.BPE({piece: n for n, piece in enumerate(table)}, list(merges))
    return roberta(model, **parts)


def llama(prepend=True):
    """Return byte pairs over characters with bytes for the rest, as Llama's."""
    pieces = [*FRAME, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"helo wrd"]
    merges = [("h", "e"), ("l", "l"), ("▁", "he")]
    pieces += ["".join(pair) for pair in merges]
    table = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    options = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    steps = [normalizers.Prepend("▁")] if prepend else []
    steps.append(normalizers.Replace(" ", "▁"))
    own = roberta(models.BPE(table, merges, **options))
    own.normalizer = normalizers.Sequence(steps)
    own.post_processor = framed("<s> $A")
    return own


def wordpiece(prefix="##", **parts):
    pieces = [*BERT, *WORDS, *(prefix + word for word in WORDS), "Un", "É"]
    table = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    own = tokenizers.Tokenizer(
        models.WordPiece(table, unk_token="[UNK]", continuing_subword_prefix=prefix)
    )
    own.normalizer = normalizers.BertNormalizer()
    own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    own.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    own.add_special_tokens([AddedToken(name, normalized=False) for name in BERT])
    for name, part in parts.items():
        setattr(own, name, part)
    return own


def with_tokens(own, *tokens):
    own.add_tokens(list(tokens))
    return own


def with_markers(own):
    """Add two markers as special tokens, as sentence-transformers recommends."""
    flags = {"special": True, "normalized": False}
    markers = [AddedToken("[DOC]", **flags), AddedToken("<q>", lstrip=True, **flags)]
    own.add_special_tokens(markers)
    return own


SPLIT = pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"), "isolated")
READ = {
    "a piece over two words, taken": lambda: unigram(
        ("▁hello▁world", -3.25), pre_tokenizer=pre_tokenizers.Metaspace(split=False)
    ),
    "an end token alone, as T5": lambda: unigram(post_processor=framed("$A </s>")),
    "two start tokens": lambda: unigram(post_processor=framed("<s> <unk> $A </s>")),
    "unknown characters in bytes": lambda: unigram(
        *((f"<0x{byte:02X}>", -9.0) for byte in range(256)), byte_fallback=True
    ),
    "Llama": llama,
    "Gemma": lambda: llama(prepend=False),
    "RoBERTa": lambda: byte_pairs(
        [("h", "e"), ("l", "l"), ("Ġ", "he")],
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        post_processor=processors.RobertaProcessing(("</s>", 2), ("<s>", 0)),
    ),
    "Qwen": lambda: byte_pairs(
        [("h", "e")],
        normalizer=normalizers.NFC(),
        pre_tokenizer=pre_tokenizers.Sequence(
            [SPLIT, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        ),
    ),
    "another prefix inside words": lambda: wordpiece("@@"),
    "MPNet": lambda: wordpiece(post_processor=framed("[CLS] $A [SEP]")),
    "blanks at both sides of a token": lambda: with_tokens(
        wordpiece(), AddedToken("newtoken", lstrip=True, rstrip=True)
    ),
    "a token that is a word": lambda: with_tokens(
        wordpiece(), AddedToken("sleep", single_word=True)
    ),
    "special markers of WordPiece": lambda: with_markers(wordpiece()),
    "special markers of a unigram vocabulary": lambda: with_markers(unigram()),
    "a marker in the vocabulary": lambda: with_tokens(
        wordpiece(), AddedToken("sleeps", special=True, rstrip=True)
    ),
}


def written(folder, own, **settings):
    own.save(str(folder / "tokenizer.json"))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tokenizers.Tokenizer.from_str(own.to_str())


def ids(own, texts):
    return [row.ids for row in own.encode_batch(texts)]


def read_as_the_library(own, folder):
    """Read a tokenizer, compare all that it does, and return it."""
    own = written(folder, own)
    added = [t.content for t in own.get_added_tokens_decoder().values()]
    names = [name for name in added if name in FRAME + BERT]
    more = ["hello world", "hello\nworld", "12 ``a`` newtoken", "NewToken NEW token"]
    more += ["[DOC] the cat", "the[DOC] cat <q> sleeps", "<q>", " [doc]a  <q>sleeps x"]
    texts = [t for t in made_texts(200) + more if not any(n in t for n in names)]
    read = read_checkpoint_tokenizer(folder)
    assert read.encode(texts) == ids(own, texts)
    own.enable_truncation(9)
    assert read.encode(texts, 9) == ids(own, texts)
    control = {read.pad_id, *read.start_ids, *read.end_ids} - {read.unknown_id}
    for text in names + [f"a {name} b" for name in names]:
        assert control.isdisjoint(read.encode_plain([text])[0])
    read.save(folder / "saved")
    again = load_tokenizer(folder / "saved")
    assert again.encode(texts) == read.encode(texts)
    assert again.fingerprint == read.fingerprint
    return read


@pytest.mark.parametrize("name", READ)
def test_ids_are_those_of_the_library(name, tmp_path):
    read_as_the_library(READ[name](), tmp_path)


TWICE = processors.Sequence([processors.BertProcessing(("</s>", 2), ("<s>", 0))] * 2)
DRAWN = models.BPE({name: n for n, name in enumerate(FRAME)}, [], dropout=0.1)


@pytest.mark.parametrize(
    ("own", "match"),
    [
        (unigram(post_processor=framed("<s> $A:1 </s>:1")), "same tokens.*of type 0"),
        (unigram(post_processor=TWICE), "same tokens around every text"),
        (roberta(DRAWN), "`dropout`"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused(own, match, tmp_path):
    written(tmp_path, own)
    with pytest.raises(InputError, match=match):
        read_checkpoint_tokenizer(tmp_path)


def test_a_table_longer_than_its_file_is_refused():
    """Else the library allocates the length that the table gives, here 1.8 GB."""
    content = json.loads(unigram().to_str())
    table = {"type": "Precompiled", "precompiled_charsmap": "aaaa" * 90}
    for normalizer in (table, {"type": "Sequence", "normalizers": [table]}):
        with pytest.raises(InputError, match="must be below 360"):
            read_backend(content | {"normalizer": normalizer}, "tokenizer.json")


@pytest.mark.parametrize("place", ["tokenizer_config", "tokenizer.json"])
def test_padding_at_the_left_is_said_to_be_unused(place, tmp_path, caplog):
    own = wordpiece()
    expected = [ids(own, [text])[0] for text in ("the the", "the")]
    if place == "tokenizer.json":
        own.enable_padding(direction="left", length=9)
    written(tmp_path, own, **{"padding_side": "left"} if place[-1] == "g" else {})
    assert read_checkpoint_tokenizer(tmp_path).encode(["the the", "the"]) == expected
    assert "`padding_side` of the tokenizer" in caplog.text
    caplog.clear()
    (tmp_path / "tokenizer_config.json").write_text('{"padding_side": "right"}')
    read_checkpoint_tokenizer(tmp_path)
    assert "padding_side" not in caplog.text


@pytest.mark.parametrize("place", ["tokenizer_config", "tokenizer.json"])
def test_a_text_that_is_cut_at_the_left_is_refused(place, tmp_path):
    own = wordpiece()
    if place == "tokenizer.json":
        own.enable_truncation(6, direction="left")
        written(tmp_path, own)
    else:
        written(tmp_path, own, truncation_side="left")
    with pytest.raises(InputError, match="`truncation_side`.*Received: 'left'"):
        read_checkpoint_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"truncation_side": "right"}')
    assert read_checkpoint_tokenizer(tmp_path).encode(["the"]) == [[2, 5, 3]]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "BertJapaneseTokenizer"),
        ({"tokenizer_class": "RoFormerTokenizerFast"}, "RoFormerTokenizerFast"),
        ({"add_eos_token": True}, "`add_eos_token` True"),
        ({"add_bos_token": False}, "`add_bos_token` False"),
        ({"added_tokens_decoder": {"9": {"content": "newtoken"}}}, "newtoken"),
        ({"auto_map": {"AutoTokenizer": ["x.Y", None]}}, "`auto_map`.*x.Y"),
    ],
)
def test_what_transformers_would_change_is_refused(settings, match, tmp_path):
    names = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>"}
    names |= {"eos_token": {"content": "</s>"}, "add_bos_token": True}
    written(tmp_path, llama(), **names)
    assert read_checkpoint_tokenizer(tmp_path).start_ids == (0,)
    written(tmp_path, llama(), **names | settings)
    with pytest.raises(InputError, match=match):
        read_checkpoint_tokenizer(tmp_path)


def test_a_vocabulary_of_bert_without_a_tokenizer_json(tmp_path):
    own = wordpiece(normalizer=normalizers.BertNormalizer(lowercase=True))
    pieces = sorted(own.get_vocab(), key=own.token_to_id)
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    texts = ["The cat  sleeps,", "Un É"]
    assert read_checkpoint_tokenizer(tmp_path).encode(texts) == ids(own, texts)
    path = tmp_path / "tokenizer_config.json"
    path.write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": false}')
    cased = read_checkpoint_tokenizer(tmp_path)
    assert cased.encode(["Un"]) == [[2, own.token_to_id("Un"), 3]]
    for settings, match in (
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "BertJapaneseTokenizer"),
        ({"tokenizer_class": "MPNetTokenizer"}, "MPNetTokenizer"),
        ({"word_tokenizer_type": "mecab"}, "word_tokenizer_type"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize"),
        ({"never_split": ["a"]}, "never_split"),
    ):
        path.write_text(json.dumps(settings))
        with pytest.raises(InputError, match=match):
            read_checkpoint_tokenizer(tmp_path)


MARKER = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
MARKERS = {
    "5": MARKER | {"content": "[DOC]"},
    "6": MARKER | {"content": "<q>", "lstrip": True},
}


CONFIG, MAP = "tokenizer_config.json", "special_tokens_map.json"
OTHER = MARKERS | {"6": MARKER | {"content": "<q>", "rstrip": True}}


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        (CONFIG, {"added_tokens_decoder": MARKERS}, None),
        (MAP, {"additional_special_tokens": ["<q>"]}, None),
        (CONFIG, {"extra_special_tokens": {"x_token": "<q>"}}, None),
        # transformers adds these, or takes others in place of the file's.
        (CONFIG, {"extra_special_tokens": ["[X]"]}, r"'\[X\]'"),
        (CONFIG, {"doc_token": "[X]"}, r"'\[X\]'"),
        (MAP, {"additional_special_tokens": ["[X]"]}, r"'\[X\]'"),
        (CONFIG, {"added_tokens_decoder": {"5": MARKERS["5"]}}, "'<q>', which token"),
        (CONFIG, {"added_tokens_decoder": OTHER}, "'<q>' with another `lstrip`"),
    ],
)
def test_added_tokens_that_other_files_declare(name, content, match, tmp_path):
    """What transformers 5.24 does with them was tried with its `BertTokenizer`."""
    own = written(tmp_path, with_markers(wordpiece()))
    (tmp_path / name).write_text(json.dumps(content))
    if match is None:
        texts = ["[DOC] the cat <q>"]
        assert read_checkpoint_tokenizer(tmp_path).encode(texts) == ids(own, texts)
    else:
        with pytest.raises(InputError, match=match):
            read_checkpoint_tokenizer(tmp_path)


@pytest.mark.parametrize("name", ["<mask>", "[MASK]"])
def test_a_usual_name_is_no_role_where_another_token_has_it(name, tmp_path):
    own = with_tokens(wordpiece(), AddedToken("<mask>", special=True))
    written(tmp_path, own, mask_token=name)
    spelled = read_checkpoint_tokenizer(tmp_path).encode_plain(["<mask>", "[MASK]"])
    other = {"<mask>": "[MASK]", "[MASK]": "<mask>"}[name]
    for text, row in zip(["<mask>", "[MASK]"], spelled, strict=True):
        assert (row == [own.token_to_id(text)]) == (text == other)


def test_blanks_are_stripped_at_the_ends_alone(tmp_path):
    """As before sentence-transformers 5.4: `str.strip` comes before added tokens."""
    own = written(
        tmp_path,
        with_markers(byte_pairs(pre_tokenizer=pre_tokenizers.ByteLevel())),
    )
    read = read_checkpoint_tokenizer(tmp_path, strip=True)
    texts = ["  a [DOC] b\n", "\x1ca  [DOC]"]
    assert read.encode(texts) == ids(own, [text.strip() for text in texts])
    read.save(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").encode(texts) == read.encode(texts)


def test_added_tokens_are_carried_by_a_folder_for_the_hub(tmp_path):
    own = with_tokens(with_markers(wordpiece()), AddedToken("newtoken"))
    written(tmp_path, own)
    read = read_checkpoint_tokenizer(tmp_path)
    write_tokenizer(read, tmp_path, 8)
    assert check_ids(read, tmp_path)["different"] == 0
    texts = ["[DOC] the cat<q>", "a newtoken"]
    written_anew = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert ids(written_anew, texts) == ids(own, texts)


def test_a_trimmed_vocabulary_keeps_added_tokens(tmp_path):
    own = written(tmp_path, with_markers(wordpiece()))
    read = read_checkpoint_tokenizer(tmp_path)
    counts = np.zeros(read.vocabulary_size, np.int64)
    counts[own.token_to_id("cat")] = 1
    trimmed = trim_tokenizer(read, choose_pieces(read, counts))
    assert trimmed.vocabulary_size < read.vocabulary_size
    [row] = trimmed.encode_plain(["[DOC] cat <q>"])
    assert [trimmed.pieces()[number] for number in row] == ["[DOC]", "cat", "<q>"]


def test_random_tokenizers(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import random_tokenizers

    try:
        rows = [random_tokenizers.checked(seed, tmp_path) for seed in range(20)]
    finally:
        sys.modules.pop("random_tokenizers")
    outcomes = [row["outcome"] for row in rows]
    assert "different" not in outcomes
    assert outcomes.count("read") > 14


@pytest.fixture(scope="module")
def unigram_of_rebuild():
    return train_unigram(CORPUS, 500)


def published(unigram_of_rebuild, style="words", mask="in vocabulary"):
    """Return the tokenizer.json that an XLM-RoBERTa checkpoint would be published with.

    The two styles are those of older and newer conversions.
    """
    proto = parse(unigram_of_rebuild.definition)
    rows = [(name, 0.0) for name in FRAME]
    rows += [(piece.piece, piece.score) for piece in proto.pieces[3:]]
    rows += [("<mask>", 0.0)] if mask == "in vocabulary" else []
    own = roberta(models.Unigram(rows, unk_id=3, byte_fallback=False))
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
    if mask is not None:
        own.add_special_tokens([AddedToken("<mask>", normalized=False)])
    return own


@pytest.mark.parametrize(
    ("style", "mask"),
    [("words", "in vocabulary"), ("blanks", "added"), ("words", None)],
)
def test_rebuilt_model_is_the_model(unigram_of_rebuild, tmp_path, style, mask):
    own = published(unigram_of_rebuild, style, mask)
    own.save(str(tmp_path / "tokenizer.json"))
    rebuilt = read_checkpoint_tokenizer(tmp_path)
    extra = [] if mask is None else ["<mask>"]
    assert rebuilt.kind == "unigram"
    assert rebuilt.pieces() == unigram_of_rebuild.pieces() + extra
    assert rebuilt.vocabulary_size == own.get_vocab_size()
    old, new = parse(unigram_of_rebuild.definition), parse(rebuilt.definition)
    assert [p.score for p in new.pieces[: len(old.pieces)]] == [
        p.score for p in old.pieces
    ]
    table = old.normalizer_spec.precompiled_charsmap
    assert new.normalizer_spec.precompiled_charsmap == table
    texts = made_texts(500)
    assert rebuilt.encode(texts) == unigram_of_rebuild.encode(texts)
    # SentencePiece composes what is not in NFKC, and `tokenizers` does not.
    assert rebuilt.encode(["ﬁ\u0301"]) != ids(own, ["ﬁ\u0301"])


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["model"]["vocab"].append(["▁le▁ga", -1.5]),
        lambda c: c.update(normalizer={"type": "NFKC"}),
        lambda c: c.update(post_processor=None),
        lambda c: c["pre_tokenizer"]["pretokenizers"][1].update(replacement="_"),
        lambda c: c["pre_tokenizer"]["pretokenizers"][1].update(prepend_scheme="first"),
        lambda c: c["added_tokens"].append(
            {"id": len(c["model"]["vocab"]), "content": "new", "special": False}
            | dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
        ),
    ],
)
def test_what_sentencepiece_cannot_do_is_run_by_tokenizers(
    unigram_of_rebuild, tmp_path, change
):
    content = json.loads(published(unigram_of_rebuild, mask=None).to_str())
    change(content)
    own = tokenizers.Tokenizer.from_str(json.dumps(content))
    assert read_as_the_library(own, tmp_path).kind == "tokenizer_json"
