"""Tokenizers that run on a tokenizer.json, through the `tokenizers` library."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from keras_msd.checks import InputError, sentences
from keras_msd.io.files import parse_json
from keras_msd.tokenizers.base import Tokenizer

_NORMALIZER_ARGUMENTS = (
    "clean_text",
    "lowercase",
    "strip_accents",
    "handle_chinese_chars",
)
_LAST = 0x110000
_SURROGATES = range(0xD800, 0xE000)
_BLOCK = 256
PANIC = "PanicException"
ROLES = ("pad_token", "start_token", "end_token", "unknown_token")
# Published vocabularies have one of these where their files do not say.
PAD, UNKNOWN = ("[PAD]", "<pad>"), ("[UNK]", "<unk>")
# The same by the keys of other files.
USUAL = {
    ("pad_token",): PAD,
    ("unk_token",): UNKNOWN,
    ("cls_token", "bos_token"): ("[CLS]", "<s>"),
    ("sep_token", "eos_token"): ("[SEP]", "</s>"),
    ("mask_token",): ("[MASK]", "<mask>"),
}


class BackendTokenizer(Tokenizer):
    """A tokenizer.json of any kind; truncation and padding in it are dropped.

    It runs in Python only; of its kinds, `WordPieceTokenizer` runs in graphs, too.

    Args:
        content: The text of a tokenizer.json, or what `read_backend` made of one.
        pad_token: Names the padding id.
        start_token: Names the token before every text; a list names none or several.
        end_token: The same for the token after every text.
        unknown_token: Names the id of what the vocabulary cannot spell.
        model2vec: Whether long texts are cut and unknown tokens are left out as in
            model2vec: see `encode`.
        strip: Whether blanks around a text are taken away first.
        origin: Where the content comes from, for messages.

    Raises:
        InputError: The content is damaged, a special token is not in the vocabulary,
            the ids have gaps, or the same text may give different ids.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "cat": 4}
        >>> made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
        >>> made.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> names = {"pad_token": "<pad>", "start_token": "<s>", "end_token": "</s>"}
        >>> tokenizer = msd.tokenizers.BackendTokenizer(
        ...     made.to_str(), unknown_token="<unk>", **names
        ... )
        >>> tokenizer.encode(["cat dog"])
        [[1, 4, 3, 2]]
    """

    kind = "tokenizer_json"
    definition_file = "tokenizer.json"

    def __init__(
        self,
        content: bytes | str | Backend,
        *,
        pad_token: str,
        start_token: str | Sequence[str],
        end_token: str | Sequence[str],
        unknown_token: str,
        model2vec: bool = False,
        strip: bool = False,
        origin: str = "`content`",
    ) -> None:
        if isinstance(content, str):
            content = content.encode()
        if isinstance(content, bytes):
            content = read_backend(content, origin)
        self.backend = content
        table = self.backend.get_vocab(with_added_tokens=True)
        given = (pad_token, start_token, end_token, unknown_token)
        self._roles = dict(zip(ROLES, given, strict=True))
        ids = [
            _ids_of(role, names, table, origin) for role, names in self._roles.items()
        ]
        (self.pad_id,), self.start_ids, self.end_ids, (self.unknown_id,) = ids
        self.model2vec, self.strip = bool(model2vec), bool(strip)
        # The token 0 stands for the unknown one where the model has none.
        self._drops = model2vec and unknown_of(self.backend) is not None
        self._pieces = sorted(table, key=lambda piece: table[piece])
        self.vocabulary_size = len(table)
        if table[self._pieces[-1]] != len(table) - 1:
            raise InputError(
                f"The ids of {origin} must run from 0 without gaps or repetition. "
                f"Received: {len(table)} tokens, largest id {table[self._pieces[-1]]}. "
                "Remove repeated lines, or add placeholders."
            )
        added = self.backend.get_added_tokens_decoder().items()
        special = {number for number, token in added if token.special}
        special |= {self.pad_id, *self.start_ids, *self.end_ids}
        self.control_ids = frozenset(special - {self.unknown_id})

    def encode_plain(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without start and end.

        What would give the id of a special token gives that of the unknown token.
        """
        texts = sentences(texts)
        if self.strip:
            texts = [text.strip() for text in texts]
        with rust_errors("`tokenizers` cannot split these texts: {}."):
            rows = self.backend.encode_batch_fast(texts, add_special_tokens=False)
        return [self._without_control(row.ids) for row in rows]

    def encode(
        self, texts: Iterable[str], max_length: int | None = None
    ) -> list[list[int]]:
        """Return the ids of each text, as every tokenizer does.

        With `model2vec` a text first loses what is after `max_length` times the median
        length of a token, in characters; and unknown tokens are left out at the end.
        """
        if not self.model2vec:
            return super().encode(texts, max_length)
        if max_length is not None:
            most = max_length * self._median_length
            texts = [text[:most] for text in sentences(texts)]
        rows = super().encode(texts, max_length)
        if not self._drops:
            return rows
        return [[i for i in row if i != self.unknown_id] for row in rows]

    @cached_property
    def _median_length(self) -> int:
        return median_length(self._pieces)

    def _without_control(self, ids: list[int]) -> list[int]:
        if self.control_ids.isdisjoint(ids):
            return ids
        return [self.unknown_id if it in self.control_ids else it for it in ids]

    @property
    def label(self) -> str:
        """What messages call it: its kind, and the first added tokens."""
        added = self.added_tokens()
        return f"{self.kind} with the added tokens {added}" if added else self.kind

    def added_tokens(self) -> str:
        """Return the first added tokens that a text can spell, for messages."""
        return ", ".join(spelled_tokens(self.backend)[:5])

    def pieces(self) -> list[str]:
        """Return the token of every id as the vocabulary spells it."""
        return list(self._pieces)

    @property
    def definition(self) -> bytes:
        """The text of tokenizer.json."""
        return self.backend.to_str().encode()

    @property
    def settings(self) -> dict[str, Any]:
        """The special tokens, and how texts are prepared, where it is unusual."""
        flags = {"model2vec": self.model2vec, "strip": self.strip}
        return self._roles | {name: True for name, is_set in flags.items() if is_set}

    @classmethod
    def from_definition(
        cls, definition: bytes, settings: dict[str, Any], origin: str
    ) -> Self:
        """Make a tokenizer from a tokenizer.json and its settings."""
        if set(settings) - {"model2vec", "strip"} != set(ROLES):
            raise InputError(
                f"The settings beside {origin} must be {', '.join(ROLES)}. Received: "
                f"{', '.join(sorted(settings)) or 'none'}. Save the tokenizer anew."
            )
        return cls(definition, origin=origin, **settings)


def unknown_of(backend: Backend) -> str | None:
    """Return the token of what a tokenizer cannot spell, None if it has none."""
    if not isinstance(backend.model, models.Unigram):
        return backend.model.unk_token
    number = json.loads(backend.to_str())["model"]["unk_id"]
    return None if number is None else backend.id_to_token(number)


def median_length(pieces: Sequence[str]) -> int:
    """Return the characters of a token that model2vec reckons with."""
    return int(np.median([len(piece) for piece in pieces]))


def _ids_of(
    role: str, names: Any, table: dict[str, int], origin: str
) -> tuple[int, ...]:
    several = isinstance(names, list) and role in ("start_token", "end_token")
    for name in names if several else [names]:
        if not isinstance(name, str) or name not in table:
            raise InputError(
                f"`{role}` must be in the vocabulary of {origin}. Received: {name!r}. "
                "Name one that is."
            )
    return tuple(table[name] for name in (names if several else [names]))


class WordPieceTokenizer(BackendTokenizer):
    """Words split at blanks and punctuation, then into the longest known pieces.

    A word that the vocabulary cannot spell, or of over 100 characters, is one unknown
    token. Lower-casing, accents and Chinese characters as the tokenizer.json says.

    Source: Devlin et al., NAACL 2019 (arXiv:1810.04805).

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "##s"]
        >>> table = {piece: number for number, piece in enumerate(pieces)}
        >>> made = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
        >>> made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        >>> names = {"pad_token": "[PAD]", "start_token": "[CLS]"}
        >>> tokenizer = msd.tokenizers.WordPieceTokenizer(
        ...     made.to_str(), end_token="[SEP]", unknown_token="[UNK]", **names
        ... )
        >>> tokenizer.encode(["cats"])
        [[2, 4, 5, 3]]
    """

    kind = "wordpiece"

    def unusual_feature(self) -> str | None:
        """Return what an artefact would not do with a text, if anything."""
        if self.strip:
            return "blanks around a text that are taken away"
        for what, ids in (("before", self.start_ids), ("after", self.end_ids)):
            if len(ids) != 1:
                return f"{len(ids)} special tokens {what} a text"
        return None


def of_backend(
    backend: Backend,
    origin: str,
    start: Sequence[str] = (),
    end: Sequence[str] = (),
    model2vec: bool = False,
    strip: bool = False,
) -> BackendTokenizer:
    """Return a published tokenizer.json as a tokenizer of its kind.

    Args:
        backend: What `read_backend` returned.
        origin: Where it comes from, for messages.
        start: The tokens before every text.
        end: The tokens after every text.
        model2vec: As `BackendTokenizer` takes it.
        strip: The same.

    Raises:
        InputError: As `BackendTokenizer`.
    """
    known = backend.get_vocab(with_added_tokens=True)
    unknown = unknown_of(backend) or _first_of(UNKNOWN, known)
    # Without either, any token may stand there: padding is masked.
    unknown = unknown or str(backend.id_to_token(0))
    kind = BackendTokenizer
    if isinstance(backend.model, models.WordPiece):
        kind = WordPieceTokenizer
    return kind(
        backend,
        pad_token=_first_of(PAD, known) or unknown,
        start_token=start[0] if len(start) == 1 else list(start),
        end_token=end[0] if len(end) == 1 else list(end),
        unknown_token=unknown,
        model2vec=model2vec,
        strip=strip,
        origin=origin,
    )


def spelled_tokens(backend: Backend) -> list[str]:
    """Return the added tokens that a text can spell: those that are not special."""
    added = backend.get_added_tokens_decoder().values()
    return [token.content for token in added if not token.special]


def role_tokens(roles: Mapping[str, str]) -> set[str]:
    """Return the tokens that have a role.

    Args:
        roles: Tokens by the keys of their roles, such as `pad_token`. A role that is
            not among them has its usual tokens.
    """
    usual = [names for keys, names in USUAL.items() if roles.keys().isdisjoint(keys)]
    return {*roles.values()}.union(*usual)


def spell_added(
    backend: Backend,
    origin: str,
    roles: Mapping[str, str],
    around: Iterable[str] = (),
) -> Backend:
    """Let texts spell the added special tokens that have no role.

    A user adds such a token as a marker to write in texts. A token with a role
    (padding, unknown, start, end, mask) stays special, so that no text can hold it.

    Args:
        backend: What `read_backend` returned.
        origin: Where it comes from, for messages.
        roles: As `role_tokens` takes them.
        around: The tokens before and after every text.

    Returns:
        The tokenizer itself where every special token has a role.
    """
    kept = {*role_tokens(roles), *around, unknown_of(backend)}
    added = backend.get_added_tokens_decoder().values()
    free = {token.content for token in added if token.special} - kept
    if not free:
        return backend
    content = json.loads(backend.to_str())
    for token in content["added_tokens"]:
        token["special"] = token["special"] and token["content"] not in free
    return read_backend(content, origin)


def _first_of(names: Iterable[str], known: Iterable[str]) -> str | None:
    return next((name for name in names if name in known), None)


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


def check_character_tables(normalizer: Any, origin: str) -> None:
    """Check that no SentencePiece table states a length beyond its end.

    The library allocates the length that the first four bytes state. Without that much
    memory the process aborts.

    Args:
        normalizer: As in the file.
        origin: Where it comes from, for messages.

    Raises:
        InputError: A table does.
    """
    steps = [normalizer]
    while steps:
        step = steps.pop()
        if not isinstance(step, dict):
            continue
        inner, table = step.get("normalizers"), step.get("precompiled_charsmap")
        steps += inner if isinstance(inner, list) else []
        if not isinstance(table, str):
            continue
        size = 0
        with suppress(ValueError):  # the library refuses what is not base64
            size = int.from_bytes(base64.b64decode(table[:8])[:4], "little")
        if size > len(table):
            raise InputError(
                f"The first four bytes of the `precompiled_charsmap` of {origin} state "
                f"a length, which must be below {len(table)}. Received: {size}. Copy "
                "the file anew."
            )


def read_backend(content: bytes | dict[str, Any], origin: str) -> Backend:
    """Return a tokenizer.json as a tokenizer that neither cuts, pads nor obeys texts.

    Args:
        content: The file's bytes, or its parsed table.
        origin: Where it comes from, for messages.

    Raises:
        InputError: The content is not a tokenizer.json, or the same text may give
            different ids.
    """
    about = parse_json(content, origin) if isinstance(content, bytes) else content
    model = about.get("model") if isinstance(about, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        added = about.get("added_tokens")
        check_ids(vocabulary, len(added) if isinstance(added, list) else 0, origin)
    if isinstance(about, dict):
        check_character_tables(about.get("normalizer"), origin)
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    damaged = f"{origin} is not a tokenizer.json that `tokenizers` can read"
    with rust_errors(f"{damaged}: {{}}. Copy it anew."):
        backend = Backend.from_buffer(raw)
    if getattr(backend.model, "dropout", None):
        raise InputError(
            f"`dropout` of the model in {origin} must be null or 0, so that a text "
            "always has the same ids. Set it to null."
        )
    backend.no_truncation()
    backend.no_padding()
    # Without this "[SEP]" in a text would become the end token.
    backend.encode_special_tokens = True
    return backend


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
    """Yield what characters become; of a block of one rule, the first character."""
    splitter = pre_tokenizers.BertPreTokenizer()

    def prepared(text: str) -> str:
        words = splitter.pre_tokenize_str(normalizer.normalize_str(text))
        return " ".join(word for word, _ in words)

    for first in range(0, _LAST, _BLOCK):
        codes = [c for c in range(first, first + _BLOCK) if c not in _SURROGATES]
        # Between two letters a character has no neighbour to combine with.
        framed = [f"x{chr(code)}y" for code in codes]
        # Most blocks are kept or removed whole, which is quick to see.
        whole = "".join(framed)
        found = prepared(whole)
        if found == whole:
            yield from ((code, chr(code)) for code in codes[:1])
        elif found == "xy" * len(codes):
            yield from ((code, "") for code in codes[:1])
        else:
            results = prepared(" ".join(framed))[1:-1].split("y x")
            yield from zip(codes, results, strict=True)
