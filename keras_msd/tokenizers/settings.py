"""What the files beside a checkpoint's vocabulary say of its tokenizer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from keras_msd.checks import InputError
from keras_msd.files import read_json, read_table
from keras_msd.tokenizers.base import CONFIG

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
