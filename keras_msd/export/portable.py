"""The description of a tokenizer that travels with an artefact fed by token ids."""

import base64
import json
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError, at_least, explained
from keras_msd.export.formats import NO_FORMAT, loaders_folder
from keras_msd.tokenizers.base import Tokenizer

VERSION = 1
READER = "portable_tokenizer.py"


def describe(tokenizer: Tokenizer, max_length: int) -> bytes:
    """Describe a tokenizer for the readers in Python and JavaScript under export/.

    Their ids equal those of `tokenizer`, for every text; the one exception is that of
    `character_rules`. The same tokenizer gives the same bytes.

    Args:
        tokenizer: A SentencePiece unigram or a WordPiece tokenizer.
        max_length: Most ids per sentence, start and end included.

    Returns:
        UTF-8 JSON: `version`, `kind`, `max_length`, `pad_id`, `start_id`, `end_id`,
        `unknown_id`, `pieces` by id, and the fields of the kind. Unigram: `scores`,
        null where text cannot spell a piece; `character_map`, the base64 of
        SentencePiece's `precompiled_charsmap`; the flags `add_dummy_prefix`,
        `remove_extra_whitespaces`, `escape_whitespaces`. WordPiece: pieces are null
        where text cannot spell them; `character_rules`, rows of `[start, before, keep,
        after]`; `max_characters_per_word`; `prefix` of a piece inside a word.

    Raises:
        InputError: The readers could not give the ids of such a tokenizer.
    """
    at_least(2, max_length=max_length)
    if feature := tokenizer.unusual_feature():
        raise refused(feature)
    kind_fields = {"unigram": _unigram, "wordpiece": _wordpiece}[tokenizer.kind]
    fields = {
        "version": VERSION,
        "kind": tokenizer.kind,
        "max_length": max_length,
        "pad_id": tokenizer.pad_id,
        "start_id": tokenizer.start_id,
        "end_id": tokenizer.end_id,
        "unknown_id": tokenizer.unknown_id,
    }
    content = fields | kind_fields(tokenizer)
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def copy_reader(folder: Path) -> None:
    """Put the stand-alone reader of descriptions into an artefact's folder."""
    shutil.copyfile(loaders_folder() / READER, folder / READER)


def load_portable(description: bytes, origin: str = "`description`") -> Any:
    """Return the tokenizer of a description, as the stand-alone reader makes it.

    Args:
        description: What `describe` returned.
        origin: Where it comes from, for messages.

    Returns:
        An object with `encode(texts) -> list[list[int]]`, start and end included, cut
        to `max_length`; and with `max_length` and `pad_id`.

    Raises:
        InputError: The description is damaged.
    """
    reader = runpy.run_path(str(loaders_folder() / READER))
    with explained(lambda error: f"{origin}: {error}", ValueError, RecursionError):
        return reader["PortableTokenizer"](description)


def _unigram(tokenizer: Any) -> dict[str, Any]:
    # Loading an artefact does not need the library.
    from keras_msd.tokenizers.sentencepiece import parse

    proto = parse(tokenizer.definition)
    types = proto.SentencePiece
    scores = [
        # The shortest number that is the same in 32 bits.
        float(str(np.float32(piece.score))) if piece.type == types.NORMAL else None
        for piece in proto.pieces[3:]
    ]
    spec = proto.normalizer_spec
    return {
        "add_dummy_prefix": spec.add_dummy_prefix,
        "remove_extra_whitespaces": spec.remove_extra_whitespaces,
        "escape_whitespaces": spec.escape_whitespaces,
        "character_map": base64.b64encode(spec.precompiled_charsmap).decode(),
        "pieces": tokenizer.pieces(),
        "scores": [None] * 4 + scores,
    }


def _wordpiece(tokenizer: Any) -> dict[str, Any]:
    from keras_msd.tokenizers.tokenizer_json import character_rules

    backend = tokenizer.backend
    known = backend.get_vocab(with_added_tokens=False)
    if added := tokenizer.added_tokens():
        raise refused(f"added tokens: {added}")
    if known.get(backend.model.unk_token) != tokenizer.unknown_id:
        raise refused(f"two unknown tokens, one of them {backend.model.unk_token}")
    return {
        "max_characters_per_word": backend.model.max_input_chars_per_word,
        "prefix": backend.model.continuing_subword_prefix,
        "character_rules": character_rules(backend),
        "pieces": [piece if piece in known else None for piece in tokenizer.pieces()],
    }


def refused(feature: str) -> InputError:
    """Return the error for a tokenizer feature that the description cannot carry."""
    return InputError(
        "A tokenizer that travels with an artefact must be unigram without byte "
        "fallback or WordPiece, with one token before a text and one after it, and cut "
        f"at the right. Received: {feature}. {NO_FORMAT}"
    )


class TokenRun:
    """A runtime that is fed by token ids, from sentences to float32 `(n, dim)`.

    Args:
        tokenizer: What `load_portable` returned.
        embed: Function from rows of ids to vectors.
    """

    def __init__(
        self, tokenizer: Any, embed: Callable[[list[list[int]]], np.ndarray]
    ) -> None:
        self.tokenizer, self._embed = tokenizer, embed

    def __call__(self, texts: list[str]) -> np.ndarray:
        """Return the vectors of sentences."""
        return self._embed(self.tokenizer.encode(texts))
