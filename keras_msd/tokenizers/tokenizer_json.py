"""Tokenizers that run on a tokenizer.json, through the `tokenizers` library."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from tokenizers import AddedToken, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from keras_msd.checks import InputError, one_of, sentences
from keras_msd.files import decoded, parse_json, read_bytes, read_json, read_table
from keras_msd.limits import VOCABULARY
from keras_msd.tokenizers.base import CONFIG, Tokenizer

# Fields of a checkpoint's tokenizer_config.json and what they set in BERT's normaliser.
NORMALIZER_FIELDS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_NORMALIZER_ARGUMENTS = ("clean_text", *NORMALIZER_FIELDS.values())
_LAST = 0x110000
_SURROGATES = range(0xD800, 0xE000)
_BLOCK = 4096
PANIC = "PanicException"
CHANGES = ("strip", "model2vec")  # settings that are absent where they are false


class BackendTokenizer(Tokenizer):
    """A tokenizer.json of any kind; truncation and padding in it are dropped.

    It runs in Python only; of its kinds, `WordPieceTokenizer` runs in graphs, too.

    Args:
        content: The text of a tokenizer.json.
        pad_token: Names the padding id.
        start_token: Names the token before every text; a list names none or several.
        end_token: The same for the token after every text.
        unknown_token: Names the id of what the vocabulary cannot spell.
        truncation_side: Where a long text loses ids, "right" or "left".
        strip: Whether blanks around a text are taken away.
        model2vec: Whether long texts are cut and unknown tokens are left out as in
            model2vec: see `encode`.
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
        content: bytes | str,
        *,
        pad_token: str,
        start_token: str | Sequence[str],
        end_token: str | Sequence[str],
        unknown_token: str,
        truncation_side: str = "right",
        strip: bool = False,
        model2vec: bool = False,
        origin: str = "`content`",
    ) -> None:
        raw = content.encode() if isinstance(content, str) else content
        self.backend = read_backend(raw, origin)
        table = self.backend.get_vocab(with_added_tokens=True)
        given = (pad_token, start_token, end_token, unknown_token)
        one_of(("right", "left"), truncation_side=truncation_side)
        self.truncation_side = truncation_side
        self.strip, self.model2vec = bool(strip), bool(model2vec)
        self._roles = dict(zip(ROLES, given, strict=True))
        ids = [
            _ids_of(role, names, table, origin) for role, names in self._roles.items()
        ]
        (self.pad_id,), self.start_ids, self.end_ids, (self.unknown_id,) = ids
        # The token 0 stands for the unknown one where the model has none.
        self._drops = model2vec and unknown_of(self.backend) is not None
        self._check_model(origin)
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

    def _check_model(self, origin: str) -> None:
        model = self.backend.model
        unknown = getattr(model, "unk_token", None)
        own = self.backend.get_vocab(with_added_tokens=False)
        if unknown is not None and unknown not in own:
            raise InputError(
                f"The `unk_token` of the model in {origin} must be in its `vocab`. "
                f"Received: {unknown!r:.80}. Take a whole copy of it."
            )
        if getattr(model, "dropout", None):
            raise InputError(
                f"`dropout` of the model in {origin} must be null or 0, so that a text "
                f"always has the same ids. Received: {model.dropout}. Set it to null."
            )

    def encode_plain(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without start and end.

        What would give the id of a special token gives that of the unknown token.
        """
        texts = sentences(texts)
        if self.strip:
            texts = [text.strip() for text in texts]
        with rust_errors("`tokenizers` cannot split these texts: {}."):
            rows = self.backend.encode_batch_fast(texts, add_special_tokens=False)
        return [self.without_control(row.ids) for row in rows]

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
            most = max_length * median_length(self._pieces)
            texts = [text[:most] for text in sentences(texts)]
        rows = super().encode(texts, max_length)
        if not self._drops:
            return rows
        return [[i for i in row if i != self.unknown_id] for row in rows]

    def without_control(self, ids: list[int]) -> list[int]:
        """Put the unknown token in the place of all special ones."""
        if self.control_ids.isdisjoint(ids):
            return ids
        return [self.unknown_id if it in self.control_ids else it for it in ids]

    def added_tokens(self) -> str:
        """Return the first added tokens that are not special, for messages."""
        added = self.backend.get_added_tokens_decoder().values()
        names = [token.content for token in added if not token.special]
        return ", ".join(names[:5])

    def pieces(self) -> list[str]:
        """Return the token of every id as the vocabulary spells it."""
        return list(self._pieces)

    @property
    def definition(self) -> bytes:
        """The text of tokenizer.json."""
        return self.backend.to_str().encode()

    @property
    def settings(self) -> dict[str, Any]:
        """The special tokens, and what else is not as usual."""
        side = {} if self.truncation_side == "right" else {SIDE: self.truncation_side}
        changes = {name: True for name in CHANGES if getattr(self, name)}
        return self._roles | side | changes

    @classmethod
    def from_definition(
        cls, definition: bytes, settings: dict[str, Any], origin: str
    ) -> Self:
        """Make a tokenizer from a tokenizer.json and its settings."""
        if set(settings) - {SIDE, *CHANGES} != set(ROLES):
            raise InputError(
                f"The settings beside {origin} must be {', '.join(ROLES)}. Received: "
                f"{', '.join(sorted(settings)) or 'none'}. Save the tokenizer anew."
            )
        return cls(definition, origin=origin, **settings)


def unknown_of(backend: Backend) -> str | None:
    """Return the token of what a tokenizer cannot spell, None if it has none."""
    model = json.loads(backend.to_str())["model"]
    number = model.get("unk_id")
    return model.get("unk_token") if number is None else backend.id_to_token(number)


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
        >>> from pathlib import Path
        >>> path = Path("vocab.txt")
        >>> _ = path.write_text(chr(10).join("[PAD] [UNK] [CLS] [SEP] cat ##s".split()))
        >>> kind = msd.tokenizers.WordPieceTokenizer
        >>> kind.from_file(path, {"do_lower_case": True}).encode(["Cats, cat"])
        [[2, 4, 5, 1, 4, 3]]
    """

    kind = "wordpiece"

    @classmethod
    def from_file(cls, path: Path, fields: dict[str, Any]) -> Self:
        """Read a vocab.txt.

        Args:
            path: The file.
            fields: What `checkpoint_fields` returned, or `do_lower_case` alone; special
                tokens have BERT's names if it gives no others.
        """
        # Only \n and \r\n end a line: some vocabularies hold other separators as
        # tokens.
        content = read_bytes(path, VOCABULARY, "Take a whole copy of the checkpoint.")
        lines = decoded(content, f"`{path}`").rstrip("\n").split("\n")
        table = {line.rstrip("\r"): number for number, line in enumerate(lines)}
        names: dict[str, Any] = special_tokens(
            fields, ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
        )
        backend = Backend(models.WordPiece(table, unk_token=names["unknown_token"]))
        accents = fields.get("strip_accents")
        backend.normalizer = normalizers.BertNormalizer(
            lowercase=bool(fields.get("do_lower_case", True)),
            strip_accents=None if accents is None else bool(accents),
            handle_chinese_chars=bool(fields.get("tokenize_chinese_chars", True)),
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        add_declared(backend, fields, f"`{path}`")
        names[SIDE] = fields.get(SIDE, "right")
        return cls(backend.to_str(), origin=f"`{path}`", **names)


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


ROLES = ("pad_token", "start_token", "end_token", "unknown_token")
# The same four in the files of a checkpoint.
CHECKPOINT_NAMES = ("pad_token", "cls_token", "sep_token", "unk_token")
SIDE = "truncation_side"
WHOLE = "Take a whole copy of the checkpoint."


def checkpoint_fields(folder: Path) -> dict[str, Any]:
    """Return what a checkpoint's settings say of its tokenizer.

    They are those of special_tokens_map.json and tokenizer_config.json; where both have
    a field, tokenizer_config.json wins, as in transformers. `tokenizer_class` may also
    stand in config.json. `added` are the tokens of added_tokens.json, and
    `added_tokens_decoder` of tokenizer_config.json, by their id.
    """
    fields: dict[str, Any] = {}
    path = folder / "config.json"
    if path.is_file():
        settings = read_json(path)
        if isinstance(settings, dict) and settings.get("tokenizer_class"):
            fields["tokenizer_class"] = settings["tokenizer_class"]
    for name in ("special_tokens_map.json", CONFIG):
        if (folder / name).is_file():
            table = read_table(folder / name).items()
            fields |= {key: value for key, value in table if value is not None}
    fields["added"] = _declared_tokens(folder, fields)
    return fields


def _declared_tokens(folder: Path, fields: dict[str, Any]) -> dict[int, AddedToken]:
    declared: dict[int, AddedToken] = {}
    path = folder / "added_tokens.json"
    names = {_content(fields[key]) for key in fields if key.endswith("_token")}
    more = fields.get("additional_special_tokens")
    names |= {_content(token) for token in (more if isinstance(more, list) else [])}
    if path.is_file():
        for content, number in read_table(path).items():
            special = content in names
            _declare(declared, number, {"content": content, "special": special}, path)
    decoder = fields.pop("added_tokens_decoder", {})
    if not isinstance(decoder, dict):
        raise InputError(
            f"`added_tokens_decoder` in `{folder / CONFIG}` must be a table. Received: "
            f"{decoder!r:.80}. Take a whole copy of the checkpoint."
        )
    for number, token in decoder.items():
        _declare(declared, number, token, folder / CONFIG)
    return declared


def _declare(
    declared: dict[int, AddedToken], number: Any, token: Any, path: Path
) -> None:
    flags = dict(token) if isinstance(token, dict) else {}
    content, special = flags.pop("content", None), flags.pop("special", False)
    flags.pop("__type", None)
    known = {"single_word", "lstrip", "rstrip", "normalized"}
    try:
        number = int(number)
        right = isinstance(content, str) and content and not flags.keys() - known
        right = right and all(isinstance(flag, bool) for flag in flags.values())
    except (TypeError, ValueError):
        right = False
    if not right:
        raise InputError(
            f"Each added token in `{path}` must have an id, `content` and flags. "
            f"Received: {number!r:.40}: {token!r:.80}. Take a whole copy of it."
        )
    flags.setdefault("normalized", not special)
    declared[number] = AddedToken(content, special=bool(special), **flags)


def _content(token: Any) -> str:
    return str(token.get("content") if isinstance(token, dict) else token)


def special_tokens(fields: dict[str, Any], defaults: Sequence[str]) -> dict[str, str]:
    """Return the four special tokens of a checkpoint, by role.

    Args:
        fields: What `checkpoint_fields` returned.
        defaults: Names of those that the checkpoint does not name.

    Raises:
        InputError: One is named by something else than a text.
    """
    tokens = []
    for key, default in zip(CHECKPOINT_NAMES, defaults, strict=True):
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


def add_declared(backend: Backend, fields: dict[str, Any], origin: str) -> None:
    """Give a tokenizer the added tokens that files beside it declare, as they say.

    Raises:
        InputError: One would have another id than is declared.
    """
    for number, token in sorted(fields.get("added", {}).items()):
        if token.special:
            backend.add_special_tokens([token])
        else:
            backend.add_tokens([token])
        if backend.token_to_id(token.content) != number:
            raise InputError(
                f"The added token {token.content!r:.80} must have the id "
                f"{backend.token_to_id(token.content)}, which follows those of "
                f"{origin}. Received: {number}. Take a whole copy of the checkpoint."
            )
