"""Writes tokenizer.json of byte pairs, as `transformers` makes it."""

import json

from tokenizers import Tokenizer, models, pre_tokenizers, processors

FRAME = ["<s>", "<pad>", "</s>", "<unk>"]


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
