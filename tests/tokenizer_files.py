"""Writes tokenizer.json as `transformers` makes it: byte pairs and WordPiece."""

import json

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

FRAME = ["<s>", "<pad>", "</s>", "<unk>"]


def write_wordpiece(folder, pieces, **fields):
    """Write BERT's tokenizer, whose pieces begin with [PAD], [UNK], [CLS] and [SEP].

    `fields` are those of tokenizer_config.json.
    """
    table = {piece: number for number, piece in enumerate(pieces)}
    own = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    own.normalizer = normalizers.BertNormalizer()
    own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = [piece for piece in pieces[:5] if piece.isupper() and piece[0] == "["]
    own.add_special_tokens(names)
    frame = ("[SEP]", table["[SEP]"]), ("[CLS]", table["[CLS]"])
    own.post_processor = processors.BertProcessing(*frame)
    folder.mkdir(exist_ok=True)
    own.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(fields))


def write_byte_pairs(folder, pieces="helo", merges=(), **fields):
    """Write byte pairs as RoBERTa's, whose first ids are those of `FRAME`.

    `fields` are those of tokenizer_config.json.
    """
    table = {piece: number for number, piece in enumerate([*FRAME, *pieces])}
    own = Tokenizer(models.BPE(table, list(merges)))
    own.add_special_tokens(FRAME)
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    own.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(fields))
