"""What tokenizers share that run on a tokenizer.json of the `tokenizers` library."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer as Backend

from keras_msd.checks import InputError
from keras_msd.files import read_json
from keras_msd.tokenizers.base import CONFIG, Tokenizer, checked_texts

ROLES = ("pad_token", "start_token", "end_token", "unknown_token")
_CHECKPOINT_NAMES = ("pad_token", "cls_token", "sep_token", "unk_token")


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
            if name not in table:
                raise InputError(
                    f"`{role}` must be in the vocabulary of {origin}. Received: "
                    f"{name!r}. Name one that is."
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
        texts = checked_texts(texts)
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


def read_backend(content: bytes, origin: str) -> Backend:
    """Return a tokenizer.json as a tokenizer that neither cuts, pads nor obeys texts.

    Raises:
        InputError: The content is not a tokenizer.json.
    """
    try:
        backend = Backend.from_buffer(content)
    except Exception as error:  # the library raises nothing more precise
        raise InputError(
            f"{origin} is not a tokenizer.json that `tokenizers` can read: {error}. "
            "Copy it anew."
        ) from error
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
    fields: dict[str, Any] = {}
    for name in ("special_tokens_map.json", CONFIG):
        if (folder / name).is_file():
            content = read_json(folder / name)
            if not isinstance(content, dict):
                raise InputError(
                    f"`{folder / name}` must be a table of fields. Received: "
                    f"{type(content).__name__}. Copy it anew."
                )
            fields |= {key: one for key, one in content.items() if one is not None}
    return fields


def special_tokens(fields: dict[str, Any], defaults: dict[str, str]) -> dict[str, str]:
    """Return the constructor's four names from a checkpoint's fields.

    Args:
        fields: What `checkpoint_fields` returned.
        defaults: `pad_token`, `cls_token`, `sep_token`, `unk_token` where it has none.
    """
    names = {}
    for role, key in zip(ROLES, _CHECKPOINT_NAMES, strict=True):
        token = fields.get(key, defaults[key])
        names[role] = token["content"] if isinstance(token, dict) else str(token)
    return names
