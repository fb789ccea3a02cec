"""WordPiece vocabularies of BERT and DistilBERT, cased and uncased."""

import json
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from keras_msd.tokenizers.backend import (
    BackendTokenizer,
    checkpoint_fields,
    special_tokens,
)

# Fields of a checkpoint's tokenizer_config.json and what they set in BERT's normaliser.
_NORMALIZER_FIELDS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_SPECIAL = {
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
}


class WordPieceTokenizer(BackendTokenizer):
    """Words split at blanks and punctuation, then into the longest known pieces.

    A word that the vocabulary cannot spell, or of over 100 characters, is one unknown
    token. Lower-casing, accents and Chinese characters as the tokenizer.json says.

    Source: Devlin et al., NAACL 2019 (arXiv:1810.04805).
    """

    kind = "wordpiece"

    @classmethod
    def from_checkpoint(cls, folder: Path) -> Self:
        """Read tokenizer.json; without one, build it from vocab.txt.

        Where tokenizer_config.json has a field on lower-casing, accents or Chinese
        characters, it wins over tokenizer.json, as in transformers.
        """
        fields = checkpoint_fields(folder)
        names = special_tokens(fields, _SPECIAL)
        path = folder / "tokenizer.json"
        if path.is_file():
            content: bytes | str = _with_fields(path.read_bytes(), fields)
        else:
            path = folder / "vocab.txt"
            content = _from_vocabulary(path, fields, names["unknown_token"])
        return cls(content, origin=f"`{path}`", **names)

    @classmethod
    def from_vocabulary(cls, path: Path, lowercase: bool) -> Self:
        """Read a vocab.txt alone, whose special tokens have BERT's names."""
        names = special_tokens({}, _SPECIAL)
        content = _from_vocabulary(
            path, {"do_lower_case": lowercase}, names["unknown_token"]
        )
        return cls(content, origin=f"`{path}`", **names)


def _with_fields(content: bytes, fields: dict[str, Any]) -> bytes:
    definition = json.loads(content)
    normalizer = definition.get("normalizer")
    if normalizer and normalizer["type"] == "BertNormalizer":
        for name, target in _NORMALIZER_FIELDS.items():
            if name in fields:
                normalizer[target] = bool(fields[name])
    return json.dumps(definition).encode()


def _from_vocabulary(path: Path, fields: dict[str, Any], unknown_token: str) -> str:
    # Only \n and \r\n end a line: some vocabularies hold other separators as tokens.
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    table = {line.rstrip("\r"): number for number, line in enumerate(lines)}
    backend = Backend(models.WordPiece(table, unk_token=unknown_token))
    accents = fields.get("strip_accents")
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=bool(fields.get("do_lower_case", True)),
        strip_accents=None if accents is None else bool(accents),
        handle_chinese_chars=bool(fields.get("tokenize_chinese_chars", True)),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend.to_str()
