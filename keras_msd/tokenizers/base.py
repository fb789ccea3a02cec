"""What every tokenizer can do, and how one is found in a folder."""

import abc
import importlib
import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.files import atomic_path, digest, read_json, write_json

CONFIG = "tokenizer_config.json"

TOKENIZERS = {
    "unigram": "keras_msd.tokenizers.sentencepiece:SentencePieceTokenizer",
    "wordpiece": "keras_msd.tokenizers.wordpiece:WordPieceTokenizer",
    "bytepair": "keras_msd.tokenizers.bytepair:BytePairTokenizer",
}

# Model types of a tokenizer.json, as the `tokenizers` library names their classes.
_JSON_MODELS = {"Unigram": "unigram", "WordPiece": "wordpiece", "BPE": "bytepair"}


class Tokenizer(abc.ABC):
    """Turns text into token ids.

    Names of special tokens in a text ("</s>", "[SEP]") are plain text: no text can
    produce a start, end or padding id.

    Attributes:
        kind: "unigram", "wordpiece" or "bytepair".
        vocabulary_size: Rows that a table of token vectors needs.
        pad_id: Id that fills a row at its right.
        start_id: Id that opens every sentence.
        end_id: Id that closes every sentence.
        unknown_id: Id of what the vocabulary cannot spell.
    """

    kind: ClassVar[str]
    definition_file: ClassVar[str]
    vocabulary_size: int
    pad_id: int
    start_id: int
    end_id: int
    unknown_id: int

    @abc.abstractmethod
    def encode_plain(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without start and end."""

    @abc.abstractmethod
    def pieces(self) -> list[str]:
        """Return the token of every id, `vocabulary_size` of them."""

    @property
    @abc.abstractmethod
    def definition(self) -> bytes:
        """The content of `definition_file`, from which the tokenizer can be made."""

    @property
    @abc.abstractmethod
    def settings(self) -> dict[str, str]:
        """The fields of tokenizer_config.json besides `kind`."""

    @classmethod
    @abc.abstractmethod
    def from_definition(
        cls, definition: bytes, settings: dict[str, Any], origin: str
    ) -> Self:
        """Make a tokenizer from what `definition` and `settings` returned.

        Args:
            definition: Content of `definition_file`.
            settings: Fields of tokenizer_config.json besides `kind`.
            origin: Where they come from, for messages.
        """

    @classmethod
    @abc.abstractmethod
    def from_checkpoint(cls, folder: Path) -> Self:
        """Make a tokenizer from the files of a published checkpoint."""

    def encode(
        self, texts: Iterable[str], max_length: int | None = None
    ) -> list[list[int]]:
        """Return the ids of each text, start and end included.

        Args:
            texts: Sentences of any length, empty ones too.
            max_length: Most ids per sentence. A longer one loses ids before its end
                token, which stays.

        Raises:
            InputError: `max_length` leaves no room for start and end, or something in
                `texts` is no text.
        """
        if max_length is not None:
            checks.at_least(2, max_length=max_length)
        room = None if max_length is None else max_length - 2
        rows = self.encode_plain(texts)
        return [[self.start_id, *row[:room], self.end_id] for row in rows]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that decides which ids come out."""
        settings = json.dumps(self.settings, sort_keys=True)
        return digest(self.kind, self.definition, settings)

    def save(self, folder: str | Path) -> None:
        """Write the tokenizer's two files into a folder, each whole or not at all."""
        folder = Path(folder)
        with atomic_path(folder / self.definition_file) as temporary:
            temporary.write_bytes(self.definition)
        write_json(folder / CONFIG, {"kind": self.kind} | self.settings)


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Read a tokenizer that `save` wrote.

    Raises:
        InputError: A file is missing or damaged, or the folder is a checkpoint's.
    """
    folder = checks.existing_folder(folder, "tokenizer folder")
    settings = read_json(folder / CONFIG)
    if not isinstance(settings, dict) or "kind" not in settings:
        raise InputError(
            f"`{folder / CONFIG}` must name the `kind` of tokenizer and does not. "
            "Give a folder that `save` wrote; `read_checkpoint_tokenizer` reads those "
            "of published checkpoints."
        )
    kind = settings.pop("kind")
    checks.one_of(TOKENIZERS, kind=kind)
    tokenizer_class = _class_of(kind)
    path = checks.existing_file(folder / tokenizer_class.definition_file)
    return tokenizer_class.from_definition(path.read_bytes(), settings, f"`{path}`")


def read_checkpoint_tokenizer(
    folder: str | Path, family: str | None = None
) -> Tokenizer:
    """Read the tokenizer of a published checkpoint.

    The tokenizer's own files say what it is, not the model: multilingual MiniLM is a
    BERT body with the SentencePiece vocabulary of XLM-RoBERTa. Truncation and padding
    stored in a tokenizer.json are ignored.

    Args:
        folder: Where the tokenizer's files lie.
        family: `model_type` of the model beside it, for messages.

    Raises:
        InputError: No known tokenizer file is there, or one is damaged.
    """
    from keras_msd.tokenizers.sentencepiece import MODEL_FILES

    folder = checks.existing_folder(folder, "checkpoint folder")
    there = {path.name for path in folder.iterdir()}
    if "tokenizer.json" in there:
        from keras_msd.tokenizers.backend import read_backend

        path = folder / "tokenizer.json"
        backend = read_backend(path.read_bytes(), f"`{path}`")
        model = type(backend.model).__name__
        if model not in _JSON_MODELS:
            raise InputError(
                f"The model in `{path}` must be one of {', '.join(_JSON_MODELS)}. "
                f"Received: {model}. Take a checkpoint with another tokenizer."
            )
        kind = _JSON_MODELS[model]
    elif there.intersection(MODEL_FILES):
        kind = "unigram"
    elif "vocab.txt" in there:
        kind = "wordpiece"
    elif {"vocab.json", "merges.txt"} <= there:
        kind = "bytepair"
    else:
        owner = f"the {family} model" if family else "the model"
        raise InputError(
            f"`{folder}` holds no tokenizer for {owner}. Copy there tokenizer.json, "
            f"{MODEL_FILES[0]}, vocab.txt, or vocab.json and merges.txt, whichever the "
            "checkpoint was published with."
        )
    return _class_of(kind).from_checkpoint(folder)


def _class_of(kind: str) -> type[Tokenizer]:
    module, name = TOKENIZERS[kind].split(":")
    return getattr(importlib.import_module(module), name)


def checked_texts(texts: Iterable[str]) -> list[str]:
    """Return `texts` as a list; raise `InputError` for what no tokenizer can read."""
    if isinstance(texts, str | bytes):
        raise InputError(
            "`texts` must be a list of texts. Received one text. Put it in a list."
        )
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"Every text must be a str. Received: {type(text).__name__} at index "
                f"{index}. Convert it, or leave it out."
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                "Every text must be valid Unicode. Received: a lone surrogate at index "
                f"{index}, character {error.start}. Read the text as UTF-8 with "
                'errors="replace".'
            ) from error
    return texts
