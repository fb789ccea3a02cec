"""Smaller vocabularies: which pieces stay, and that all else stays as it was."""

import numpy as np
import pytest
import tensorflow_text
import tokenizers
from random_encoder import random_encoder
from tokenizer_files import write_wordpiece
from tokenizer_texts import CORPUS, made_texts
from tokenizers import models, normalizers, pre_tokenizers, trainers

from keras_msd.checks import InputError
from keras_msd.models import trim as module
from keras_msd.models.trim import (
    choose_pieces,
    restore_vocabulary,
    trim_tokenizer,
    trim_vocabulary,
    trimming_report,
)
from keras_msd.testing import tiny_encoder
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import (
    SentencePieceTokenizer,
    parse,
    train_unigram,
)
from keras_msd.tokenizers.tokenizer_json import WordPieceTokenizer

pytestmark = pytest.mark.usefixtures("no_graphs")

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SPARE_ROWS = 7
USED = CORPUS[:40]  # the texts that a vocabulary is chosen by
OTHER = CORPUS + made_texts(300)


def make_unigram():
    model = parse(train_unigram(CORPUS, vocabulary_size=420).definition)
    model.pieces.add(piece="<mask>", type=model.SentencePiece.CONTROL)
    return SentencePieceTokenizer(model.SerializeToString())


def make_wordpiece():
    backend = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=SPECIAL, show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    names = dict(zip(("start", "pad", "end", "unknown"), SPECIAL, strict=False))
    roles = {f"{role}_token": name for role, name in names.items()}
    return WordPieceTokenizer(backend.to_str(), **roles)


TOKENIZERS = {
    "unigram": make_unigram,
    "wordpiece": make_wordpiece,
}


def make_encoder(tokenizer, **fields):
    rows = tokenizer.vocabulary_size + SPARE_ROWS
    given = {"num_layers": 0, "repeats": 1, "bottleneck_dim": None} | fields
    return random_encoder(tokenizer, vocabulary_size=rows, **given)


@pytest.fixture(scope="module", params=TOKENIZERS)
def encoder(request):
    return make_encoder(TOKENIZERS[request.param](), bottleneck_dim=4)


@pytest.fixture(scope="module")
def unigram():
    return make_unigram()


def named(tokenizer, texts):
    pieces = tokenizer.pieces()
    return [[pieces[n] for n in row] for row in tokenizer.encode_plain(texts)]


@pytest.mark.parametrize("keep", [0.9, "most of the room"])
def test_text_of_kept_pieces_keeps_pieces_and_vector(encoder, keep):
    if isinstance(keep, str):
        everything = trim_vocabulary(encoder, USED).tokenizer.vocabulary_size
        keep = everything - 20
    trimmed = trim_vocabulary(encoder, USED, keep=keep)
    before, after = encoder.tokenizer, trimmed.tokenizer
    assert after.vocabulary_size < before.vocabulary_size - 20
    assert (after.kind, after.settings) == (before.kind, before.settings)
    kept = set(after.pieces())
    assert [piece for piece in before.pieces() if piece in kept] == after.pieces()
    was, now = named(before, OTHER), named(after, OTHER)
    same = [kept.issuperset(row) for row in was]
    assert 100 < sum(same) < len(OTHER) - 30
    assert all(a == b for a, b, fits in zip(was, now, same, strict=True) if fits)
    texts = [text for text, fits in zip(OTHER, same, strict=True) if fits][::9]
    np.testing.assert_allclose(
        trimmed.encode(texts), encoder.encode(texts), atol=1e-6, rtol=0
    )


def test_only_table_and_ids_change(encoder):
    trimmed = trim_vocabulary(encoder, USED)
    size, old = trimmed.tokenizer.vocabulary_size, encoder.tokenizer
    assert trimmed.config.vocabulary_size == size  # spare rows are gone
    assert trimmed.config.pad_id == trimmed.tokenizer.pad_id
    mine, theirs = trimmed.weights(), encoder.weights()
    assert mine.keys() == theirs.keys()
    for path in mine.keys() - {"embedding/word"}:
        np.testing.assert_array_equal(mine[path], theirs[path])
    for row, piece in enumerate(trimmed.tokenizer.pieces()):
        was = theirs["embedding/word"][old.pieces().index(piece)]
        np.testing.assert_array_equal(mine["embedding/word"][row], was)
    assert set(SPECIAL) <= set(trimmed.tokenizer.pieces())
    unused = "".join(piece for piece in SPECIAL)
    assert old.vocabulary_size == encoder.config.vocabulary_size - SPARE_ROWS
    assert unused not in named(trimmed.tokenizer, [unused])[0]


def test_texts_are_walked_through_in_parts(unigram, monkeypatch):
    encoder, sizes = make_encoder(unigram), []
    plain = unigram.encode_plain
    monkeypatch.setattr(module, "CHUNK", 16)
    monkeypatch.setattr(
        unigram, "encode_plain", lambda part: sizes.append(len(part)) or plain(part)
    )
    trimmed = trim_vocabulary(encoder, (text for text in USED))
    assert (max(sizes), sum(sizes)) == (16, len(USED))
    monkeypatch.undo()
    whole = trim_vocabulary(encoder, USED)
    assert trimmed.fingerprint == whole.fingerprint


def test_what_cannot_be_trimmed_by(unigram):
    encoder = make_encoder(unigram)
    for texts, words in {
        (): "Received: no texts",
        ("", "  "): "Received: no texts, or only empty ones",
        ("a", None): "must hold strings",
        "one text": "must be a list. Received: the text",
    }.items():
        with pytest.raises(InputError, match=words):
            trim_vocabulary(encoder, texts)
    with pytest.raises(InputError, match="Only an encoder's vocabulary"):
        trim_vocabulary(unigram, ["a"])
    with pytest.raises(InputError, match="`texts` must hold something"):
        trimming_report(encoder, encoder, [""])


def test_report_counts_by_hand(unigram):
    encoder = make_encoder(unigram, bottleneck_dim=4)
    trimmed = trim_vocabulary(encoder, USED, keep=0.7)
    report = trimming_report(encoder, trimmed, iter(OTHER))
    kept = set(trimmed.tokenizer.pieces())
    was, now = named(unigram, OTHER), named(trimmed.tokenizer, OTHER)
    tokens = [piece for row in was for piece in row]
    share = sum(piece in kept for piece in tokens) / len(tokens)
    equal = sum(a == b for a, b in zip(was, now, strict=True)) / len(OTHER)
    assert report["texts"] == len(OTHER)
    assert max(share, equal) < 1
    assert report["tokens_kept"] == pytest.approx(share, abs=1e-6)
    assert report["texts_unchanged"] == pytest.approx(equal, abs=1e-6)
    rows = [report["pieces_before"], report["pieces_after"]]
    assert rows == [unigram.vocabulary_size, len(kept)]
    removed = 16 * (rows[0] - rows[1] + SPARE_ROWS)  # 4 numbers of 4 bytes a row
    shorter = len(unigram.definition) - len(trimmed.tokenizer.definition)
    assert report["bytes_before"] - report["bytes_after"] == removed + shorter


@pytest.mark.parametrize("make", [make_unigram, make_wordpiece])
def test_restored_tokens_stand_beside_those_that_were_trained_on(make):
    whole = tiny_encoder(make(), num_layers=0)
    trimmed = trim_vocabulary(whole, USED)
    trained = {path: value + 0.01 for path, value in trimmed.weights().items()}
    trimmed.set_weights(trained)
    restored = restore_vocabulary(trimmed, whole)

    assert restored.tokenizer.fingerprint == whole.tokenizer.fingerprint
    table = restored.weights()["embedding/word"]
    own = {token: row for row, token in enumerate(trimmed.tokenizer.pieces())}
    for row, token in enumerate(whole.tokenizer.pieces()):
        source = trained if token in own else whole.weights()
        expected = source["embedding/word"][own.get(token, row)]
        np.testing.assert_array_equal(table[row], expected)
    np.testing.assert_allclose(restored.encode(USED), trimmed.encode(USED), atol=1e-6)


def test_a_vocabulary_is_restored_only_from_one_that_has_all_tokens():
    whole = tiny_encoder(make_unigram(), num_layers=0)
    with pytest.raises(InputError, match="tokens that are not there"):
        restore_vocabulary(whole, trim_vocabulary(whole, USED))
    with pytest.raises(InputError, match="widths 16 and 8"):
        restore_vocabulary(whole, tiny_encoder(make_unigram(), bottleneck_dim=8))


@pytest.fixture(scope="module")
def plain_unigram():
    return train_unigram(CORPUS, vocabulary_size=420)


def proto_of(tokenizer, rows, tests=b""):
    proto = parse(tokenizer.definition)
    del proto.pieces[3:]
    for piece, score in rows:
        proto.pieces.add(piece=piece, score=score)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return SentencePieceTokenizer(proto.SerializeToString() + tests)


def test_the_price_of_an_unknown_character_stays(plain_unigram):
    # The least likely piece sets that price. Without it "▁a", an unknown "X" and "bc"
    # would be cheaper than three kept pieces.
    rows = [("▁", -1), ("aXb", -50), ("c", -40), ("▁a", -1), ("bc", -1)]
    tokenizer = proto_of(plain_unigram, [*rows, ("zzz", -200)])
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    counts[4:9] = 5
    trimmed = trim_tokenizer(tokenizer, choose_pieces(tokenizer, counts))
    assert named(tokenizer, ["aXbc"]) == [["▁", "aXb", "c"]]
    assert named(trimmed, ["aXbc"]) == [["▁", "aXb", "c"]]
    cheap = proto_of(plain_unigram, rows)
    assert named(cheap, ["aXbc"]) == [["▁a", "<unk>", "bc"]]


def field(number, content):
    return bytes([8 * number + 2, len(content)]) + content


def test_examples_in_a_published_model_do_not_stop_it_from_loading(plain_unigram):
    sample = field(1, b"ab") + field(2, "▁ ab".encode())
    rows = [("▁", -0.5), ("ab", -1), ("a", -2), ("b", -2), ("q", -9)]
    tokenizer = proto_of(plain_unigram, rows, field(4, field(1, sample)))
    tensorflow_text.SentencepieceTokenizer(tokenizer.definition).tokenize(["ab"])
    counts = np.array([0, 0, 0, 0, 3, 0, 3, 3, 0])
    trimmed = trim_tokenizer(tokenizer, choose_pieces(tokenizer, counts))
    assert named(trimmed, ["ab"]) == [["▁", "a", "b"]]
    ids = tensorflow_text.SentencepieceTokenizer(trimmed.definition).tokenize(["ab"])
    assert ids.to_list() == [[3, 4, 5]]


LINES = "[PAD] [UNK] [CLS] [SEP] [unused] un ##aff ##able a ##a f b l ##l al x".split()


def test_pieces_are_chosen_by_hand(tmp_path):
    write_wordpiece(tmp_path, LINES)
    tokenizer = read_checkpoint_tokenizer(tmp_path)

    def chosen(counts, min_count=1):
        rows = np.array([counts.get(piece, 0) for piece in LINES])
        kept = choose_pieces(tokenizer, rows, min_count=min_count)
        return [LINES[number] for number in kept[4:]]

    letters = ["a", "##a", "l", "##l"]
    assert chosen({"al": 1}) == [*letters, "al"]
    assert chosen({"al": 1, "##a": 9}, min_count=9) == letters
    # "un" and "##aff" have letters ("##n", "##f") without a piece: they must stay.
    must = ["un", "##aff", "a", "##a", "f"]
    assert chosen({"un": 1, "##aff": 1, "a": 9}, min_count=9) == must
    assert chosen({"a": 4, "[UNK]": 50}) == ["a", "##a"]


def test_the_name_of_the_unknown_piece_is_not_spelled(plain_unigram):
    pieces = plain_unigram.pieces()
    counts = np.zeros(len(pieces), np.int64)
    counts[[plain_unigram.unknown_id, pieces.index("日")]] = 9
    kept = {pieces[number] for number in choose_pieces(plain_unigram, counts)}
    assert "日" in kept and {"u", "n", "k"} < set(pieces) - kept


def test_ids_must_be_whole_and_in_order(plain_unigram):
    for wrong in ([0, 1, 2], [*reversed(range(421))], [0, *range(421)]):
        with pytest.raises(InputError, match="`kept` must be ascending ids"):
            trim_tokenizer(plain_unigram, wrong)


def test_how_much_is_kept(plain_unigram):
    counts = np.zeros(plain_unigram.vocabulary_size, np.int64)
    letters = [4 + n for n, p in enumerate(plain_unigram.pieces()[4:]) if len(p) == 1]
    words = [4 + n for n, p in enumerate(plain_unigram.pieces()[4:]) if len(p) > 2][:40]
    counts[letters] = 1
    counts[words] = np.arange(40, 0, -1)
    total = int(counts.sum())
    least = len(choose_pieces(plain_unigram, counts, min_count=40))
    everything = choose_pieces(plain_unigram, counts)
    assert set(everything) >= {*range(4), *letters, *words}
    for room in (least, least + 13, len(everything), 10_000):
        kept = choose_pieces(plain_unigram, counts, room)
        assert len(kept) == min(room, len(everything))
        assert kept == sorted(kept)
    thirteen = choose_pieces(plain_unigram, counts, least + 12)
    assert set(words[:13]) <= set(thirteen)
    share = choose_pieces(plain_unigram, counts, 0.8)
    covered = counts[share].sum() / total
    rarest = min(counts[n] for n in share if n in words)
    assert 0.8 <= covered < 0.8 + rarest / total
    assert choose_pieces(plain_unigram, counts, 1.0) == everything
    with pytest.raises(InputError, match=f"`keep` must be at least {least - 1}"):
        choose_pieces(plain_unigram, counts, least - 2)
    with pytest.raises(InputError, match="at most 40, what the most frequent"):
        choose_pieces(plain_unigram, counts, min_count=41)
    for wrong in (0, -1, 1.5, 0.0, True, "9", float("nan")):
        with pytest.raises(InputError, match="`keep` must be a number of pieces"):
            choose_pieces(plain_unigram, counts, wrong)
