import numpy as np
import pytest
import tensorflow_text
import tokenizers
from tokenizer_texts import CORPUS, made_texts
from tokenizers import models, normalizers, pre_tokenizers

from keras_msd.checks import InputError
from keras_msd.models.trim import choose_pieces, trim_tokenizer
from keras_msd.tokenizers.graph import GraphTokenizer
from keras_msd.tokenizers.sentencepiece import (
    SentencePieceTokenizer,
    parse,
    train_unigram,
)
from keras_msd.tokenizers.tokenizer_json import WordPieceTokenizer


@pytest.fixture(scope="module")
def unigram():
    return train_unigram(CORPUS, vocabulary_size=420)


def named(tokenizer, texts):
    pieces = tokenizer.pieces()
    return [[pieces[n] for n in row] for row in tokenizer.encode_plain(texts)]


def proto_of(tokenizer, rows, tests=b""):
    proto = parse(tokenizer.definition)
    del proto.pieces[3:]
    for piece, score in rows:
        proto.pieces.add(piece=piece, score=score)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return SentencePieceTokenizer(proto.SerializeToString() + tests)


def test_the_price_of_an_unknown_character_stays(unigram):
    # The least likely piece sets that price. Without it "▁a", an unknown "X" and "bc"
    # would be cheaper than three kept pieces.
    rows = [("▁", -1), ("aXb", -50), ("c", -40), ("▁a", -1), ("bc", -1)]
    tokenizer = proto_of(unigram, [*rows, ("zzz", -200)])
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    counts[4:9] = 5
    trimmed = trim_tokenizer(tokenizer, choose_pieces(tokenizer, counts))
    assert named(tokenizer, ["aXbc"]) == [["▁", "aXb", "c"]]
    assert named(trimmed, ["aXbc"]) == [["▁", "aXb", "c"]]
    cheap = proto_of(unigram, rows)
    assert named(cheap, ["aXbc"]) == [["▁a", "<unk>", "bc"]]


def field(number, content):
    return bytes([8 * number + 2, len(content)]) + content


def test_examples_in_a_published_model_do_not_stop_it_from_loading(unigram):
    sample = field(1, b"ab") + field(2, "▁ ab".encode())
    rows = [("▁", -0.5), ("ab", -1), ("a", -2), ("b", -2), ("q", -9)]
    tokenizer = proto_of(unigram, rows, field(4, field(1, sample)))
    tensorflow_text.SentencepieceTokenizer(tokenizer.definition).tokenize(["ab"])
    counts = np.array([0, 0, 0, 0, 3, 0, 3, 3, 0])
    trimmed = trim_tokenizer(tokenizer, choose_pieces(tokenizer, counts))
    assert named(trimmed, ["ab"]) == [["▁", "a", "b"]]
    ids = tensorflow_text.SentencepieceTokenizer(trimmed.definition).tokenize(["ab"])
    assert ids.to_list() == [[3, 4, 5]]


def test_a_trimmed_vocabulary_splits_alike_in_a_graph(unigram):
    ids = sum(unigram.encode_plain(CORPUS[:60]), [])
    counts = np.bincount(ids, minlength=unigram.vocabulary_size)
    trimmed = trim_tokenizer(unigram, choose_pieces(unigram, counts, 0.8))
    texts = (CORPUS + made_texts())[::3]
    rows = GraphTokenizer(trimmed, max_length=6000)(texts)["token_ids"].numpy()
    for row, ids in zip(rows.tolist(), trimmed.encode(texts), strict=True):
        assert row == ids + [trimmed.pad_id] * (len(row) - len(ids))


LINES = "[PAD] [UNK] [CLS] [SEP] [unused] un ##aff ##able a ##a f b l ##l al x".split()


def hand_made():
    table = {piece: number for number, piece in enumerate(LINES)}
    backend = tokenizers.Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    roles = ("pad", "unknown", "start", "end")
    names = {f"{role}_token": LINES[n] for n, role in enumerate(roles)}
    return WordPieceTokenizer(backend.to_str(), **names)


def chosen(counts, keep=None, min_count=1):
    rows = np.array([counts.get(piece, 0) for piece in LINES])
    kept = choose_pieces(hand_made(), rows, keep, min_count)
    return [LINES[number] for number in kept[4:]]


def test_pieces_are_chosen_by_hand():
    letters = ["a", "##a", "l", "##l"]
    assert chosen({"al": 1}) == [*letters, "al"]
    assert chosen({"al": 1, "##a": 9}, min_count=9) == letters
    # "un" and "##aff" have letters ("##n", "##f") without a piece: they must stay.
    must = ["un", "##aff", "a", "##a", "f"]
    assert chosen({"un": 1, "##aff": 1, "a": 9}, min_count=9) == must
    assert chosen({"a": 4, "[UNK]": 50}) == ["a", "##a"]


def test_the_name_of_the_unknown_piece_is_not_spelled(unigram):
    pieces = unigram.pieces()
    counts = np.zeros(len(pieces), np.int64)
    counts[[unigram.unknown_id, pieces.index("日")]] = 9
    kept = {pieces[number] for number in choose_pieces(unigram, counts)}
    assert "日" in kept and {"u", "n", "k"} < set(pieces) - kept


def test_ids_must_be_whole_and_in_order(unigram):
    for wrong in ([0, 1, 2], [*reversed(range(421))], [0, *range(421)]):
        with pytest.raises(InputError, match="`kept` must be ascending ids"):
            trim_tokenizer(unigram, wrong)


def test_how_much_is_kept(unigram):
    counts = np.zeros(unigram.vocabulary_size, np.int64)
    letters = [4 + n for n, p in enumerate(unigram.pieces()[4:]) if len(p) == 1]
    words = [4 + n for n, p in enumerate(unigram.pieces()[4:]) if len(p) > 2][:40]
    counts[letters] = 1
    counts[words] = np.arange(40, 0, -1)
    total, least = int(counts.sum()), len(choose_pieces(unigram, counts, min_count=40))
    everything = choose_pieces(unigram, counts)
    assert set(everything) >= {*range(4), *letters, *words}
    for room in (least, least + 13, len(everything), 10_000):
        kept = choose_pieces(unigram, counts, room)
        assert len(kept) == min(room, len(everything))
        assert kept == sorted(kept)
    thirteen = choose_pieces(unigram, counts, least + 12)
    assert set(words[:13]) <= set(thirteen)
    share = choose_pieces(unigram, counts, 0.8)
    covered = counts[share].sum() / total
    rarest = min(counts[n] for n in share if n in words)
    assert 0.8 <= covered < 0.8 + rarest / total
    assert choose_pieces(unigram, counts, 1.0) == everything
    at_least_30 = choose_pieces(unigram, counts, min_count=30)
    assert set(words) & set(at_least_30) >= set(words[:11])
    assert words[12] not in at_least_30
    with pytest.raises(InputError, match=f"`keep` must be at least {least - 1}"):
        choose_pieces(unigram, counts, least - 2)
    with pytest.raises(InputError, match="at most 40, what the most frequent"):
        choose_pieces(unigram, counts, min_count=41)
    for wrong in (0, -1, 1.5, 0.0, True, "9", float("nan")):
        with pytest.raises(InputError, match="`keep` must be a number of pieces"):
            choose_pieces(unigram, counts, wrong)
