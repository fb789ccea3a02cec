"""Tokenizers that run on a tokenizer.json: WordPiece, and byte pairs."""

import abc
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from keras_msd.checks import InputError, sentences
from keras_msd.files import decoded, parse_json, read_bytes, read_table
from keras_msd.limits import VOCABULARY
from keras_msd.tokenizers.base import CONFIG, Tokenizer

ROLES = ("pad_token", "start_token", "end_token", "unknown_token")
# The same four in the files of a checkpoint.
_CHECKPOINT_NAMES = ("pad_token", "cls_token", "sep_token", "unk_token")
# Fields of a checkpoint's tokenizer_config.json and what they set in BERT's normaliser.
_NORMALIZER_FIELDS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_NORMALIZER_ARGUMENTS = ("clean_text", *_NORMALIZER_FIELDS.values())
_LAST = 0x110000
_SURROGATES = range(0xD800, 0xE000)
_BLOCK = 4096
PANIC = "PanicException"


class BackendTokenizer(Tokenizer):
    """A vocabulary in a tokenizer.json; truncation and padding in it are dropped.

    Args:
        content: The text of a tokenizer.json.
        pad_token: Names the padding id.
        start_token: Names the id that opens every sentence.
        end_token: Names the id that closes every sentence.
        unknown_token: Names the id of what the vocabulary cannot spell.
        origin: Where the content comes from, for messages.

    Raises:
        InputError: The content is damaged, a special token is not in the vocabulary, or
            the ids have gaps.
    """

    definition_file = "tokenizer.json"
    vocabulary_file: ClassVar[str]
    # Pad, start, end and unknown token of a checkpoint that does not name them.
    default_tokens: ClassVar[tuple[str, str, str, str]]

    def __init__(
        self,
        content: bytes | str,
        *,
        pad_token: str,
        start_token: str,
        end_token: str,
        unknown_token: str,
        origin: str = "`content`",
    ) -> None:
        raw = content.encode() if isinstance(content, str) else content
        self.backend = read_backend(raw, origin)
        table = self.backend.get_vocab(with_added_tokens=True)
        self._names = (pad_token, start_token, end_token, unknown_token)
        for role, name in zip(ROLES, self._names, strict=True):
            if not isinstance(name, str) or name not in table:
                raise InputError(
                    f"`{role}` must be in the vocabulary of {origin}. Received: "
                    f"{name!r}. Name one that is."
                )
        unknown = getattr(self.backend.model, "unk_token", None)
        own = self.backend.get_vocab(with_added_tokens=False)
        if unknown is not None and unknown not in own:
            raise InputError(
                f"The `unk_token` of the model in {origin} must be in its `vocab`. "
                f"Received: {unknown!r:.80}. Take a whole copy of it."
            )
        ids = [table[name] for name in self._names]
        self.pad_id, self.start_id, self.end_id, self.unknown_id = ids
        self._pieces = sorted(table, key=lambda piece: table[piece])
        self.vocabulary_size = len(table)
        if table[self._pieces[-1]] != len(table) - 1:
            raise InputError(
                f"The ids of {origin} must run from 0 without gaps or repetition. "
                f"Received: {len(table)} tokens, largest id {table[self._pieces[-1]]}. "
                "Remove repeated lines, or add placeholders."
            )

    def encode_plain(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without start and end."""
        texts = sentences(texts)
        rows = self.backend.encode_batch_fast(texts, add_special_tokens=False)
        return [row.ids for row in rows]

    def pieces(self) -> list[str]:
        """Return the token of every id as the vocabulary spells it."""
        return list(self._pieces)

    @property
    def definition(self) -> bytes:
        """The text of tokenizer.json."""
        return self.backend.to_str().encode()

    @property
    def settings(self) -> dict[str, str]:
        """The special tokens."""
        return dict(zip(ROLES, self._names, strict=True))

    @classmethod
    def from_definition(
        cls, definition: bytes, settings: dict[str, Any], origin: str
    ) -> Self:
        """Make a tokenizer from a tokenizer.json and its four special tokens."""
        if set(settings) != set(ROLES):
            raise InputError(
                f"The settings beside {origin} must be {', '.join(ROLES)}. Received: "
                f"{', '.join(sorted(settings)) or 'none'}. Save the tokenizer anew."
            )
        return cls(definition, origin=origin, **settings)

    @classmethod
    def from_checkpoint(cls, folder: Path) -> Self:
        """Read tokenizer.json; without one, build it from the vocabulary's own files.

        A field in tokenizer_config.json on how texts are prepared wins over
        tokenizer.json, as in transformers.
        """
        fields = checkpoint_fields(folder)
        tokens = cls._special_tokens(fields)
        path = folder / cls.definition_file
        if path.is_file():
            content = read_table(path)
            cls._set_fields(content, fields)
            definition = json.dumps(content)
        else:
            path = folder / cls.vocabulary_file
            definition = cls._built(path, fields, tokens["unknown_token"]).to_str()
        return cls(definition, origin=f"`{path}`", **tokens)

    @classmethod
    def _special_tokens(cls, fields: dict[str, Any]) -> dict[str, str]:
        names = zip(_CHECKPOINT_NAMES, cls.default_tokens, strict=True)
        tokens = []
        for key, default in names:
            token = fields.get(key, default)
            text = token.get("content") if isinstance(token, dict) else token
            if not isinstance(text, str):
                raise InputError(
                    f"`{key}` in {CONFIG} or special_tokens_map.json must be a text, "
                    f"or a table with the text `content`. Received: {token!r:.80}. "
                    "Take a whole copy of the checkpoint."
                )
            tokens.append(text)
        return dict(zip(ROLES, tokens, strict=True))

    @staticmethod
    @abc.abstractmethod
    def _set_fields(content: dict[str, Any], fields: dict[str, Any]) -> None:
        """Change a tokenizer.json as the fields of a checkpoint say."""

    @staticmethod
    @abc.abstractmethod
    def _built(path: Path, fields: dict[str, Any], unknown_token: str) -> Backend:
        """Return what a checkpoint without tokenizer.json has, from `path`."""


class WordPieceTokenizer(BackendTokenizer):
    """Words split at blanks and punctuation, then into the longest known pieces.

    A word that the vocabulary cannot spell, or of over 100 characters, is one unknown
    token. Lower-casing, accents and Chinese characters as the tokenizer.json says.

    Source: Devlin et al., NAACL 2019 (arXiv:1810.04805).

    Example:
        >>> from pathlib import Path
        >>> path = Path("vocab.txt")
        >>> _ = path.write_text(chr(10).join("[PAD] [UNK] [CLS] [SEP] cat ##s".split()))
        >>> kind = msd.tokenizers.WordPieceTokenizer
        >>> kind.from_vocabulary(path, lowercase=True).encode(["Cats, cat"])
        [[2, 4, 5, 1, 4, 3]]
    """

    kind = "wordpiece"
    vocabulary_file = "vocab.txt"
    default_tokens = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")

    def added_tokens(self) -> str:
        """Return the first added tokens that are not special, for messages."""
        added = self.backend.get_added_tokens_decoder().values()
        names = [token.content for token in added if not token.special]
        return ", ".join(names[:5])

    @classmethod
    def from_vocabulary(cls, path: Path, lowercase: bool) -> Self:
        """Read a vocab.txt alone, whose special tokens have BERT's names."""
        tokens = cls._special_tokens({})
        fields = {"do_lower_case": lowercase}
        backend = cls._built(path, fields, tokens["unknown_token"])
        return cls(backend.to_str(), origin=f"`{path}`", **tokens)

    @staticmethod
    def _set_fields(content: dict[str, Any], fields: dict[str, Any]) -> None:
        normalizer = _part(content, "normalizer", "BertNormalizer")
        if normalizer is not None:
            for name, target in _NORMALIZER_FIELDS.items():
                if name in fields:
                    normalizer[target] = bool(fields[name])

    @staticmethod
    def _built(path: Path, fields: dict[str, Any], unknown_token: str) -> Backend:
        # Only \n and \r\n end a line: some vocabularies hold other separators as
        # tokens.
        content = read_bytes(path, VOCABULARY, "Take a whole copy of the checkpoint.")
        lines = decoded(content, f"`{path}`").rstrip("\n").split("\n")
        table = {line.rstrip("\r"): number for number, line in enumerate(lines)}
        backend = Backend(models.WordPiece(table, unk_token=unknown_token))
        accents = fields.get("strip_accents")
        backend.normalizer = normalizers.BertNormalizer(
            lowercase=bool(fields.get("do_lower_case", True)),
            strip_accents=None if accents is None else bool(accents),
            handle_chinese_chars=bool(fields.get("tokenize_chinese_chars", True)),
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return backend


class BytePairTokenizer(BackendTokenizer):
    """Bytes joined by learned merges; nothing is unknown and blanks count.

    It runs in Python only: there is no operation for it in a saved graph.

    Source: Radford et al. 2019 (GPT-2); Liu et al. 2019 (arXiv:1907.11692).

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> pieces = ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "ab"]
        >>> table = json.dumps({piece: number for number, piece in enumerate(pieces)})
        >>> _ = Path("vocab.json").write_text(table)
        >>> _ = Path("merges.txt").write_text("a b")
        >>> kind = msd.tokenizers.BytePairTokenizer
        >>> kind.from_checkpoint(Path(".")).encode(["abba"])
        [[1, 6, 5, 4, 2]]
    """

    kind = "bytepair"
    vocabulary_file = "vocab.json"
    default_tokens = ("<pad>", "<s>", "</s>", "<unk>")

    @staticmethod
    def _set_fields(content: dict[str, Any], fields: dict[str, Any]) -> None:
        splitter = _part(content, "pre_tokenizer", "ByteLevel")
        prefix = fields.get("add_prefix_space")
        if splitter is not None and prefix is not None:
            splitter["add_prefix_space"] = bool(prefix)

    @staticmethod
    def _built(path: Path, fields: dict[str, Any], unknown_token: str) -> Backend:
        merges = path.with_name("merges.txt")
        both = f"`{path}` and `{merges}` must hold one BPE vocabulary"
        check_ids(read_table(path), 0, f"`{path}`")
        with rust_errors(f"{both}: {{}}. Copy both anew."):
            table, pairs = models.BPE.read_file(str(path), str(merges))
            backend = Backend(models.BPE(table, pairs))
        prefix = bool(fields.get("add_prefix_space", False))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        return backend


def _part(content: dict[str, Any], name: str, kind: str) -> dict[str, Any] | None:
    """Return a part of a tokenizer.json if it is of a kind."""
    part = content.get(name)
    return part if isinstance(part, dict) and part.get("type") == kind else None


@contextmanager
def rust_errors(message: str) -> Iterator[None]:
    """Turn whatever the `tokenizers` library raises into an `InputError`.

    Args:
        message: What the user reads, with {} for what the library says.
    """
    try:
        yield
    except BaseException as error:
        # It raises nothing more precise than Exception, and a panic is not even that.
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        raise InputError(message.format(error)) from error


def check_ids(vocabulary: dict[str, Any], more: int, origin: str) -> None:
    """Raise `InputError` unless ids are below the number of tokens.

    The library keeps a row for each id up to the largest when it writes a vocabulary.

    Args:
        vocabulary: Ids by token.
        more: Tokens that have their ids elsewhere.
        origin: Where it comes from, for messages.
    """
    size = len(vocabulary) + more
    for token, number in vocabulary.items():
        if type(number) is not int or not 0 <= number < size:
            raise InputError(
                f"The ids of {origin} must run from 0 without gaps or repetition. "
                f"Received: {number!r:.40} for {token!r:.40}, of {size} tokens. Take a "
                "whole copy."
            )


def read_backend(content: bytes, origin: str) -> Backend:
    """Return a tokenizer.json as a tokenizer that neither cuts, pads nor obeys texts.

    Raises:
        InputError: The content is not a tokenizer.json.
    """
    about = parse_json(content, origin)
    model = about.get("model") if isinstance(about, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        added = about.get("added_tokens")
        check_ids(vocabulary, len(added) if isinstance(added, list) else 0, origin)
    damaged = f"{origin} is not a tokenizer.json that `tokenizers` can read"
    with rust_errors(f"{damaged}: {{}}. Copy it anew."):
        backend = Backend.from_buffer(content)
    backend.no_truncation()
    backend.no_padding()
    # Without this "[SEP]" in a text would become the end token.
    backend.encode_special_tokens = True
    return backend


def checkpoint_fields(folder: Path) -> dict[str, Any]:
    """Return what a checkpoint's special_tokens_map.json and tokenizer_config.json say.

    Only plain values and the names of special tokens are used by callers; where both
    files have a field, tokenizer_config.json wins, as in transformers.
    """
    paths = [folder / name for name in ("special_tokens_map.json", CONFIG)]
    fields = [read_table(path).items() for path in paths if path.is_file()]
    return {key: value for key, value in chain(*fields) if value is not None}


class Rule(NamedTuple):
    """What becomes of the characters from `start` to the next rule's start.

    Each is replaced by `before`, itself if `keep`, and `after`. A blank in the result
    separates words.
    """

    start: int
    before: str
    keep: bool
    after: str


def character_rules(backend: Backend) -> list[Rule]:
    """Measure how a BERT tokenizer prepares text, over all of Unicode.

    Cleaning, spacing of Chinese characters, removal of accents, lower-casing and the
    split at punctuation each look at one character at a time, so a table over all
    characters is the whole preparation. It is measured, not written down, because the
    Unicode tables of the `tokenizers` library are its own: those of another library
    treat some characters differently. One thing is not in the table: of two adjacent
    marks from some 80 rare ones (Glagolitic, Adlam, Balinese, ...), the library may
    swap the order, as canonical decomposition does.

    Args:
        backend: A tokenizer with BERT's normaliser and pre-tokeniser.

    Raises:
        InputError: The tokenizer prepares text in another way.
    """
    normalizer, splitter = backend.normalizer, backend.pre_tokenizer
    if not (
        isinstance(normalizer, normalizers.BertNormalizer)
        and isinstance(splitter, pre_tokenizers.BertPreTokenizer)
    ):
        raise InputError(
            "A WordPiece tokenizer in a graph needs BertNormalizer and "
            f"BertPreTokenizer. Received: {type(normalizer).__name__} and "
            f"{type(splitter).__name__}. Run it in Python."
        )
    return _measured(*(getattr(normalizer, name) for name in _NORMALIZER_ARGUMENTS))


@cache  # seconds of work, and at most a handful of settings in a process
def _measured(*settings: Any) -> list[Rule]:
    rules: list[Rule] = []
    arguments = dict(zip(_NORMALIZER_ARGUMENTS, settings, strict=True))
    normalizer = normalizers.BertNormalizer(**arguments)
    for code, result in _results(normalizer):
        before, character, after = result.partition(chr(code))
        rule = Rule(code, before, bool(character), after)
        if not rules or rule[1:] != rules[-1][1:]:
            rules.append(rule)
    return rules


def _results(normalizer: normalizers.BertNormalizer) -> Iterator[tuple[int, str]]:
    splitter = pre_tokenizers.BertPreTokenizer()
    for first in range(0, _LAST, _BLOCK):
        codes = [c for c in range(first, first + _BLOCK) if c not in _SURROGATES]
        # Between two letters a character has no neighbour to combine with.
        text = " ".join(f"x{chr(code)}y" for code in codes)
        words = splitter.pre_tokenize_str(normalizer.normalize_str(text))
        joined = " ".join(word for word, _ in words)
        yield from zip(codes, joined[1:-1].split("y x") if codes else [], strict=True)
