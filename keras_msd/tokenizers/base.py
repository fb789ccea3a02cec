"""What every tokenizer can do."""

import abc
import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from keras_msd import checks
from keras_msd.io.files import atomic_path, digest, write_json

CONFIG = "tokenizer_config.json"


class Tokenizer(abc.ABC):
    """Turns text into token ids.

    Names of special tokens in a text ("</s>", "[SEP]") are plain text: no text can
    produce a start, end or padding id.

    Attributes:
        kind: Its name in `TOKENIZERS`: "unigram", "wordpiece", "tokenizer_json".
        definition_file: Name of the file that holds `definition`.
        vocabulary_size: Rows that a table of token vectors needs.
        pad_id: Id that fills a row at its right.
        start_ids: Ids before every text; a kind may have none, or several.
        end_ids: Ids after every text, likewise.
        unknown_id: Id of what the vocabulary cannot spell.

    Example:
        >>> tokenizer = msd.testing.tiny_tokenizer()
        >>> [ids] = tokenizer.encode(["The cat"], max_length=4)
        >>> ids[0] == tokenizer.start_id, ids[-1] == tokenizer.end_id, len(ids)
        (True, True, 4)
    """

    kind: ClassVar[str]
    definition_file: ClassVar[str]
    vocabulary_size: int
    pad_id: int
    start_ids: tuple[int, ...]
    end_ids: tuple[int, ...]
    unknown_id: int

    @property
    def start_id(self) -> int:
        """The id that opens every sentence; an error if there is none, or several."""
        return _only("start", self.start_ids)

    @property
    def end_id(self) -> int:
        """The id that closes every sentence; an error if there is none, or several."""
        return _only("end", self.end_ids)

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
    def settings(self) -> dict[str, Any]:
        """The fields of tokenizer_config.json besides `kind`; by default none."""
        return {}

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

    def encode(
        self, texts: Iterable[str], max_length: int | None = None
    ) -> list[list[int]]:
        """Return the ids of each text, start and end included.

        Args:
            texts: Sentences of any length, empty ones too.
            max_length: Most ids per sentence. A longer one loses its last ids; start
                and end stay.

        Raises:
            InputError: `max_length` leaves no room for start and end, or something in
                `texts` is no text.
        """
        before, after = list(self.start_ids), list(self.end_ids)
        checks.at_least(max(1, len(before) + len(after)), max_length=max_length)
        rows = self.encode_plain(texts)
        if max_length is not None:
            room = max_length - len(before) - len(after)
            rows = [row[:room] for row in rows]
        return [[*before, *row, *after] for row in rows]

    @property
    def label(self) -> str:
        """What messages call it: its kind, and what its kind may follow from."""
        return self.kind

    def unusual_feature(self) -> str | None:
        """Return what keeps a tokenizer out of artefacts, if anything does."""
        return f"kind {self.label}"

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


def _only(name: str, ids: tuple[int, ...]) -> int:
    if len(ids) != 1:
        raise checks.InputError(
            f"This needs a tokenizer with one {name} token. Received: one that has "
            f"{len(ids)}. Use an encoder whose tokenizer has one."
        )
    return ids[0]
