"""The kinds of tokenizer, by name."""

from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_file, existing_folder, one_of, placed
from keras_msd.files import read_bytes, read_table
from keras_msd.limits import VOCABULARY
from keras_msd.tokenizers.base import CONFIG, Tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer
from keras_msd.tokenizers.tokenizer_json import (
    BackendTokenizer,
    WordPieceTokenizer,
)

# A class of your own goes under its `kind`.
TOKENIZERS: dict[str, type[Tokenizer]] = {
    "unigram": SentencePieceTokenizer,
    "wordpiece": WordPieceTokenizer,
    "tokenizer_json": BackendTokenizer,
}


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Read a tokenizer that `save` wrote.

    Raises:
        InputError: A file is missing or damaged, or the folder is a checkpoint's.

    Example:
        >>> msd.testing.tiny_tokenizer().save("tokenizer")
        >>> msd.tokenizers.load_tokenizer("tokenizer").encode([""])
        [[0, 2]]
    """
    folder = existing_folder(folder, "tokenizer folder")
    settings = read_table(folder / CONFIG)
    if "kind" not in settings:
        raise InputError(
            f"`{folder / CONFIG}` must name the `kind` of tokenizer and does not. "
            "Give a folder that `save` wrote; `read_checkpoint_tokenizer` reads those "
            "of published checkpoints."
        )
    kind = str(settings.pop("kind"))
    with placed(folder / CONFIG):
        one_of(TOKENIZERS, kind=kind)
    path = existing_file(folder / TOKENIZERS[kind].definition_file)
    content = read_bytes(path, VOCABULARY, "Save the tokenizer anew.")
    return make_tokenizer(kind, content, settings, f"`{path}`")


def make_tokenizer(
    kind: str, definition: bytes, settings: dict[str, Any], origin: str
) -> Tokenizer:
    """Make a tokenizer from its `kind`, `definition` and `settings`.

    Args:
        kind: Its name in `TOKENIZERS`.
        definition: As the tokenizer has it.
        settings: As the tokenizer has them.
        origin: Where they come from, for messages.

    Raises:
        InputError: The kind is unknown, or the definition is damaged.
    """
    one_of(TOKENIZERS, kind=kind)
    return TOKENIZERS[kind].from_definition(definition, settings, origin)
