import json

import pytest
from tokenizer_texts import CORPUS, SENTENCES, made_texts

from keras_msd.checks import InputError
from keras_msd.tokenizers.loading import load_tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, train_unigram

SIZE = 500


@pytest.fixture(scope="module")
def unigram():
    return train_unigram(CORPUS, SIZE)


def test_ids_are_those_of_xlm_roberta(unigram):
    from sentencepiece import SentencePieceProcessor

    assert unigram.vocabulary_size == SIZE == len(unigram.pieces())
    assert unigram.pieces()[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    special = (unigram.start_id, unigram.pad_id, unigram.end_id, unigram.unknown_id)
    assert special == (0, 1, 2, 3)
    model = SentencePieceProcessor(model_proto=unigram.definition)
    assert unigram.pieces()[4:] == [model.id_to_piece(i) for i in range(3, SIZE - 1)]
    for text in made_texts():
        pieces = model.encode(text, out_type=str)
        named = [unigram.pieces()[i] for i in unigram.encode_plain([text])[0]]
        known = [p if p in unigram.pieces()[4:] else "<unk>" for p in pieces]
        assert named == known, repr(text)


def test_special_names_in_a_text_are_text(unigram):
    for text in ("</s>", "<s> <pad>", "a</s>b", "<mask>", "<unk>"):
        assert not {0, 1, 2} & set(unigram.encode_plain([text])[0])


def test_encode_frames_and_cuts(unigram):
    texts = ["", SENTENCES[0]]
    plain = unigram.encode_plain(texts)
    assert plain[0] == []
    assert unigram.encode(texts) == [[0, *row, 2] for row in plain]
    assert unigram.encode(texts, max_length=5) == [[0, 2], [0, *plain[1][:3], 2]]
    assert unigram.encode(texts, max_length=2) == [[0, 2], [0, 2]]
    assert unigram.encode([]) == []
    assert unigram.encode(iter(texts)) == unigram.encode(texts)
    with pytest.raises(InputError, match="`max_length` must be at least 2"):
        unigram.encode(texts, max_length=1)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "must be a list of sentences"),
        (["a", 3], "3 \\(int\\) at position 1"),
        (["a", "b\ud800"], "position 1.*surrogate pair, character 1 of"),
    ],
)
def test_what_is_no_text_is_refused(unigram, texts, message):
    with pytest.raises(InputError, match=message):
        unigram.encode(texts)


def test_folder_round_trip(unigram, tmp_path):
    unigram.save(tmp_path / "t")
    files = {path.name: path.read_bytes() for path in (tmp_path / "t").iterdir()}
    assert set(files) == {"sentencepiece.model", "tokenizer_config.json"}
    again = load_tokenizer(tmp_path / "t")
    assert again.fingerprint == unigram.fingerprint
    assert again.encode(made_texts()) == unigram.encode(made_texts())
    again.save(tmp_path / "t")
    assert files == {p.name: p.read_bytes() for p in (tmp_path / "t").iterdir()}


def test_damaged_folders_are_refused(unigram, tmp_path):
    unigram.save(tmp_path)
    config = tmp_path / "tokenizer_config.json"
    for content, message in (
        ({"kind": "unigrm"}, "Did you mean `unigram`"),
        ({"kind": "unigram", "module": "os"}, "unknown fields: module"),
        ({"do_lower_case": True}, "read_checkpoint_tokenizer"),
    ):
        config.write_text(json.dumps(content))
        with pytest.raises(InputError, match=message):
            load_tokenizer(tmp_path)
    config.write_text('{"kind": "unigram"}')
    model = tmp_path / "sentencepiece.model"
    for content, message in (
        (model.read_bytes()[:3000], "not a whole SentencePiece model"),
        (b"", "no pieces"),
    ):
        model.write_bytes(content)
        with pytest.raises(InputError, match=message):
            load_tokenizer(tmp_path)
    model.unlink()
    with pytest.raises(InputError, match="does not exist"):
        load_tokenizer(tmp_path)


def test_other_sentencepiece_models_are_refused(unigram):
    from sentencepiece import sentencepiece_model_pb2 as schema

    proto = schema.ModelProto.FromString(unigram.definition)
    proto.trainer_spec.model_type = schema.TrainerSpec.BPE
    with pytest.raises(InputError, match="type UNIGRAM. Received: BPE"):
        SentencePieceTokenizer(proto.SerializeToString())
    proto.trainer_spec.model_type = schema.TrainerSpec.UNIGRAM
    proto.pieces[1].piece = "[BOS]"
    with pytest.raises(InputError, match=r"Received: <unk>, \[BOS\], </s>"):
        SentencePieceTokenizer(proto.SerializeToString())


def test_training_is_silent_and_takes_a_sample(capfd, monkeypatch):
    whole = train_unigram(CORPUS, 260)
    monkeypatch.setattr("keras_msd.tokenizers.sentencepiece._SAMPLE", 200)
    parts = [train_unigram(iter(CORPUS), 260) for _ in range(2)]
    assert parts[0].fingerprint == parts[1].fingerprint != whole.fingerprint
    assert capfd.readouterr() == ("", "")


def test_case_folded_pieces_are_those_of_the_small_letters(tmp_path):
    folded = train_unigram(CORPUS, 260, case_fold=True)
    folded.save(tmp_path)
    texts = [*SENTENCES, "GRÜSSE AUS BOZEN", "Щука И ЁЖ"]
    texts = [text for text in texts if "İ" not in text]  # two letters, when small
    assert folded.encode(texts) == folded.encode([text.lower() for text in texts])
    assert load_tokenizer(tmp_path).encode(texts) == folded.encode(texts)
    assert train_unigram(CORPUS, 260).encode(texts) != folded.encode(texts)


def test_a_size_that_does_not_fit_names_one_that_does():
    with pytest.raises(InputError, match="must be at most") as caught:
        train_unigram(SENTENCES, 5000)
    largest = int(str(caught.value).split("at most ")[1].split()[0])
    assert train_unigram(SENTENCES, largest).vocabulary_size == largest
    with pytest.raises(InputError, match="must be at least") as caught:
        train_unigram(SENTENCES, 20)
    smallest = int(str(caught.value).split("at least ")[1].split()[0])
    assert train_unigram(SENTENCES, smallest).vocabulary_size == smallest


@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_training_needs_a_text(texts):
    with pytest.raises(InputError, match="texts that are not empty"):
        train_unigram(texts, 50)


def test_an_error_while_reading_texts_comes_through():
    def reader():
        yield "one"
        raise InputError("line 2 has three columns")

    with pytest.raises(InputError, match="line 2 has three columns"):
        train_unigram(reader(), 50)
