"""Token ids of a corpus on disk, next to its texts, read by offset."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError, at_least
from keras_msd.choices import MAX_LENGTH
from keras_msd.data.pair import Pairs
from keras_msd.data.ragged import Ragged, RaggedWriter, TokenRows, read_flat
from keras_msd.data.text_table import CHUNK, SIDES, FileRange, TextTable, opened
from keras_msd.io.checksums import read_metadata, write_metadata
from keras_msd.io.files import atomic_path, digest, text_hash
from keras_msd.progress import track
from keras_msd.tokenizers.base import Tokenizer

VERSION = 1


class PairTable(TokenRows):
    """Token ids, English groups and texts of a corpus for one tokenizer.

    Create one with `PairTable.build`. The content stays on disk; a call reads only what
    it returns.

    Attributes:
        texts: The `TextTable` of the same rows.
        files: `FileRange`s: name, language and rows of each file.
        pad_id: Id that pads a row of a batch.
        max_length: Maximum number of token ids of a text.
        key: Hash of everything the content depends on.

    Example:
        >>> pairs = msd.data.Pairs.from_list(msd.testing.tiny_pairs())
        >>> tokenizer = msd.testing.tiny_tokenizer()
        >>> table = msd.data.PairTable.build(pairs, tokenizer, "table", max_length=16)
        >>> ids, mask = table.padded("target", np.array([0, 7]), length=16)
        >>> len(table), ids.shape, table.texts.texts("target", 7, 8)
        (8, (2, 16), ['La maison est très vieille.'])
    """

    def __init__(self, folder: Path, texts: TextTable) -> None:
        meta = _meta(folder)
        places = {side: folder / "tokens" / side for side in SIDES}
        sides = {side: Ragged.open(it, meta["dtype"]) for side, it in places.items()}
        super().__init__(sides, meta["pad_id"], meta["max_length"])
        self.folder, self.texts, self.key = folder, texts, meta["key"]
        self.tokenizer_fingerprint: str = meta["tokenizer"]
        self._groups = read_flat(folder / "tokens" / "groups", np.uint64)

    @property
    def files(self) -> list[FileRange]:
        """Name, language and rows of each file, in order."""
        return self.texts.files

    def groups(self, rows: np.ndarray) -> np.ndarray:
        """Return a 64-bit hash of each row's English text, uint64 `(n,)`."""
        return np.asarray(self._groups[rows])

    @classmethod
    def open(cls, folder: str | Path) -> "PairTable":
        """Open a table that `build` made.

        Raises:
            InputError: There is no table, it has another version, it is damaged, or its
                texts are missing or were replaced.
        """
        folder = Path(folder)
        meta = _meta(folder)
        texts = TextTable.open(Path(os.path.normpath(folder / meta["texts"])))
        if texts.key != meta["texts_key"]:
            raise InputError(
                f"The texts in `{texts.folder}` are not those that `{folder}` was made "
                "from. Delete the second folder; it is built again."
            )
        return cls(folder, texts)

    @classmethod
    def build(
        cls,
        pairs: Pairs | TextTable,
        tokenizer: Tokenizer,
        folder: str | Path,
        *,
        max_length: int = MAX_LENGTH,
        **options: Any,
    ) -> "PairTable":
        """Clean and tokenise a corpus, and store the result in `folder`.

        If the folder already contains a table of the same content, tokenizer and
        settings, it is opened instead. Damaged token ids are rebuilt, with a warning.

        Args:
            pairs: The corpus; or its `TextTable`, which is not cleaned again and stays
                where it is.
            tokenizer: The tokenizer.
            folder: Folder of the table; texts and token ids appear when complete.
            max_length: Maximum number of token ids of a text, at least 2.
            **options: Options of `TextTable.build`, for a corpus.

        Raises:
            InputError: See `TextTable.build`; or the folder contains a table of another
                corpus, tokenizer or setting.
        """
        at_least(2, max_length=max_length)
        folder = Path(folder)
        if isinstance(pairs, TextTable):
            if options:
                raise InputError(
                    "Texts on disk are already cleaned and limited. Received: "
                    f"{', '.join(options)}. Give them to `TextTable.build`."
                )
            texts = pairs
        else:
            texts = TextTable.build(pairs, folder / "texts", **options)
        place = os.path.relpath(texts.folder, folder)
        meta = tokens_meta(texts.key, place, tokenizer, max_length)
        if (table := opened(cls, folder, folder / "tokens", meta["key"])) is not None:
            return table
        with atomic_path(folder / "tokens") as temporary:
            temporary.mkdir()
            for side in SIDES:
                with RaggedWriter(temporary / side, meta["dtype"]) as writer:
                    chunks, total = texts.chunks(side), -(-len(texts) // CHUNK)
                    for chunk in track(chunks, total, f"Tokenising the {side} texts"):
                        writer.extend(tokenizer.encode(chunk, max_length))
            with open(temporary / "groups", "wb") as handle:
                for chunk in texts.chunks("source"):
                    handle.write(group_hashes(chunk))
            write_metadata(temporary / "tokens.json", meta, "token ids")
        return cls(folder, texts)


def group_hashes(texts: list[str] | list[bytes]) -> bytes:
    """Return a hash of 8 bytes for each English text, little-endian, joined."""
    return b"".join(text_hash(text)[:8] for text in texts)


def tokens_meta(
    texts_key: str, place: str, tokenizer: Tokenizer, max_length: int
) -> dict[str, Any]:
    """Return the content of `tokens.json`.

    Args:
        texts_key: Key of the texts.
        place: Path of the texts, relative to the folder of the table.
        tokenizer: The tokenizer.
        max_length: Maximum number of token ids of a text.
    """
    return {
        "version": VERSION,
        "key": table_key(texts_key, tokenizer, max_length),
        "texts": place,
        "texts_key": texts_key,
        "tokenizer": tokenizer.fingerprint,
        "max_length": max_length,
        "pad_id": tokenizer.pad_id,
        "dtype": token_type(tokenizer),
    }


def token_type(tokenizer: Tokenizer) -> str:
    """Return the type of token ids on disk."""
    return "uint16" if tokenizer.vocabulary_size <= 1 << 16 else "int32"


def table_key(texts_key: str, tokenizer: Tokenizer, max_length: int) -> str:
    """Return a hash of everything that token ids depend on."""
    return digest(str(VERSION), texts_key, tokenizer.fingerprint, str(max_length))


def _meta(folder: Path) -> dict[str, Any]:
    return read_metadata(folder / "tokens" / "tokens.json", VERSION, "token ids")
