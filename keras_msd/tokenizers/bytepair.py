"""Byte-level BPE vocabularies of RoBERTa."""

import json
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from keras_msd.checks import InputError
from keras_msd.tokenizers.backend import (
    BackendTokenizer,
    checkpoint_fields,
    special_tokens,
)

_SPECIAL = {
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
}


class BytePairTokenizer(BackendTokenizer):
    """Bytes joined by learned merges; nothing is unknown and blanks count.

    It runs in Python only: there is no operation for it in a saved graph.

    Source: Radford et al. 2019 (GPT-2); Liu et al. 2019 (arXiv:1907.11692).
    """

    kind = "bytepair"

    @classmethod
    def from_checkpoint(cls, folder: Path) -> Self:
        """Read tokenizer.json; without one, build it from vocab.json and merges.txt.

        `add_prefix_space` in tokenizer_config.json wins over tokenizer.json, as in
        transformers.
        """
        fields = checkpoint_fields(folder)
        path = folder / "tokenizer.json"
        if path.is_file():
            content: bytes | str = _with_fields(path.read_bytes(), fields)
        else:
            path = folder / "vocab.json"
            content = _from_vocabulary(path, folder / "merges.txt", fields)
        names = special_tokens(fields, _SPECIAL)
        return cls(content, origin=f"`{path}`", **names)


def _with_fields(content: bytes, fields: dict[str, Any]) -> bytes:
    definition = json.loads(content)
    splitter = definition.get("pre_tokenizer")
    if splitter and splitter["type"] == "ByteLevel" and "add_prefix_space" in fields:
        splitter["add_prefix_space"] = bool(fields["add_prefix_space"])
    return json.dumps(definition).encode()


def _from_vocabulary(path: Path, merges: Path, fields: dict[str, Any]) -> str:
    try:
        table, pairs = models.BPE.read_file(str(path), str(merges))
        model = models.BPE(table, pairs)
    except Exception as error:  # the library raises nothing more precise
        raise InputError(
            f"`{path}` and `{merges}` must hold one BPE vocabulary: {error}. "
            "Copy both anew."
        ) from error
    backend = Backend(model)
    prefix = bool(fields.get("add_prefix_space", False))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    return backend.to_str()
