"""Tokenizers from folders: of ours, and of published checkpoints.

Those of checkpoints have the ids of their own files, or are refused.
"""

import json
import logging
import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers
from tokenizers.implementations import BertWordPieceTokenizer

from keras_msd.checks import (
    InputError,
    existing_file,
    existing_folder,
    log_unused,
    one_of,
    placed,
)
from keras_msd.io.files import (
    VOCABULARY,
    decoded,
    parse_json,
    read_bytes,
    read_table,
    read_toml,
)
from keras_msd.tokenizers.base import CONFIG, Tokenizer
from keras_msd.tokenizers.sentencepiece import (
    BLANK,
    SentencePieceTokenizer,
    rebuild,
)
from keras_msd.tokenizers.tokenizer_json import (
    USUAL,
    BackendTokenizer,
    WordPieceTokenizer,
    of_backend,
    read_backend,
    role_tokens,
    rust_errors,
    spell_added,
    spelled_tokens,
)

logger = logging.getLogger(__name__)

FILE, ADDED, MAP = "tokenizer.json", "added_tokens.json", "special_tokens_map.json"
ROLE_KEYS = [key for keys in USUAL for key in keys]
EXTRA = ("extra_special_tokens", "additional_special_tokens")  # today's name, and older
FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
# Classes whose vocab.txt is read, and what they must say where there is nothing else.
BERT_CLASSES = ("Bert", "DistilBert", "Electra", "MobileBert")
BASIC = {"do_basic_tokenize": True, "never_split": None, "word_tokenizer_type": None}
RIGHT = "right"
NEEDED = {"truncation_side": RIGHT, "auto_map": None}
CALLABLE = "Give the model's encode function as a callable teacher."
JOINED = 8  # pieces in a probe
MOST_PIECES = 2000

_PUBLISHED = read_toml(Path(__file__).with_name("published.toml"))
PROBES = _PUBLISHED["texts"]
JSON_CLASSES: list[str] = _PUBLISHED["classes"]["json"]
PLAIN_CLASSES: list[str] = _PUBLISHED["classes"]["plain"]
UNUSED: list[str] = _PUBLISHED["keys"]["unused"]
PLACES: dict[str, tuple[str, str, str]] = _PUBLISHED["places"]
# Beside tokens, whose keys end in `_token`.
KNOWN = {*BASIC, *NEEDED, *EXTRA, *PLACES, *UNUSED, "added_tokens_decoder"}
KNOWN |= {"model_max_length", "split_special_tokens", "tokenizer_class"}
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


def read_checkpoint_tokenizer(folder: str | Path, strip: bool = False) -> Tokenizer:
    """Read the tokenizer.json of a published checkpoint, or BERT's vocab.txt.

    The file says what the tokenizer is, not the model: multilingual MiniLM is a BERT
    body with the SentencePiece vocabulary of XLM-RoBERTa. It is run by the library
    `tokenizers`. A unigram vocabulary with the ids of XLM-RoBERTa is run by
    SentencePiece instead, which graphs and artefacts can carry, if both give the same
    ids for many short texts and for pieces of the vocabulary. Truncation and padding in
    the file are ignored.

    Added tokens have their ids, special ones too. Two differences stay. Special tokens
    with a role (padding, unknown, start, end, mask) are text where a text spells them.
    And SentencePiece composes letters of several code points ("e" and a combining
    accent, half-width katakana) where `tokenizers` may not, and takes U+0085 for no
    blank. Texts in NFKC have the same ids in both.

    Args:
        folder: Where the tokenizer's files lie.
        strip: Whether blanks around a text are taken away first.

    Raises:
        InputError: Neither file is there, it is damaged, or the ids would differ from
            those of transformers.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> table = {"[PAD]": 0, "[UNK]": 1, "cat": 2, "##s": 3}
        >>> made = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
        >>> made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        >>> made.save("tokenizer.json")
        >>> msd.tokenizers.read_checkpoint_tokenizer(".").encode(["cats"])
        [[2, 3]]
    """
    folder = existing_folder(folder, "checkpoint folder")
    path = folder / FILE
    fields = _optional(folder / CONFIG)
    origin = f"`{path}`"
    if path.is_file():
        content = parse_json(read_bytes(path, VOCABULARY, CALLABLE), origin)
    else:
        content = _of_vocabulary(folder, fields)
    if isinstance(content, dict):
        _check_fields(folder, fields, content)
        _put_fields(content, fields)
    backend = read_backend(content, origin)
    frame = _frame(backend, origin)
    roles, others = _named_tokens(folder, fields)
    _check_added(folder, fields, backend, role_tokens(roles), others)
    _check_frame(folder, fields, frame)
    log_unused(
        (it for it in fields if not it.endswith("_token")), KNOWN, folder / CONFIG
    )
    if not fields.get("split_special_tokens"):
        backend = spell_added(backend, origin, roles, [*frame[0], *frame[1]])
    # Blanks are no tokens of BERT, but may be part of an added one.
    ignored = isinstance(backend.pre_tokenizer, pre_tokenizers.BertPreTokenizer)
    strip = strip and not (ignored and not spelled_tokens(backend))
    tokenizer = of_backend(backend, origin, *frame, strip=strip)
    if isinstance(backend.model, models.Unigram):
        return _by_sentencepiece(tokenizer, origin)
    return tokenizer


def _optional(path: Path) -> dict[str, Any]:
    return read_table(path) if path.is_file() else {}


def _of_vocabulary(folder: Path, fields: dict[str, Any]) -> Any:
    """Return the tokenizer.json that transformers makes of BERT's vocab.txt."""
    path, name = folder / "vocab.txt", str(fields.get("tokenizer_class", "Bert"))
    odd = [key for key, value in BASIC.items() if fields.get(key, value) != value]
    known = name.removesuffix("Fast").removesuffix("Tokenizer") in BERT_CLASSES
    if odd or not (known and path.is_file()):
        reason = "no vocab.txt"
        if path.is_file():
            wrong = f"`{odd[0]}`" if known else f"`tokenizer_class` {name!r:.80}"
            reason = f"{wrong} in {CONFIG}"
        raise InputError(
            f"`{folder}` must hold the {FILE} of the model. Received: none, and "
            f"{reason}. Load its tokenizer with `transformers` and write it again with "
            f'`tokenizer.save_pretrained("{folder}")`, which makes {FILE}.'
        )
    text = decoded(read_bytes(path, VOCABULARY, CALLABLE), f"`{path}`")
    lines = text.rstrip("\n").split("\n")
    table = {line.rstrip("\r"): number for number, line in enumerate(lines)}
    with rust_errors(f"`{path}` is no vocabulary of BERT: {{}}. Copy it anew."):
        return json.loads(BertWordPieceTokenizer(table).to_str())


def _side(step: Any) -> str:
    side = step.get("direction", RIGHT) if isinstance(step, dict) else RIGHT
    return str(side).lower()


def _check_fields(
    folder: Path, fields: dict[str, Any], content: dict[str, Any]
) -> None:
    cut = _side(content.get("truncation"))
    given = {"truncation_side": cut, "auto_map": None} | fields
    if fields.get("padding_side", _side(content.get("padding"))) != RIGHT:
        logger.warning(
            "`padding_side` of the tokenizer in `%s` is not used: texts are padded at "
            "the right, so that no vector depends on the other texts of a batch.",
            folder,
        )
    name = fields.get("tokenizer_class")
    base = str(name).removesuffix("Fast").removesuffix("Tokenizer")
    if name not in (None, *PLAIN_CLASSES) and base not in JSON_CLASSES:
        raise InputError(
            f"The `tokenizer_class` of `{folder}` must be one whose ids are those of "
            f"{FILE}. Received: {name!r:.80}. {CALLABLE}"
        )
    for key, value in NEEDED.items():
        if given[key] not in (value, None):
            raise InputError(
                f"`{key}` of the tokenizer in `{folder}` must be {value!r}. Received: "
                f"{given[key]!r:.80}. {CALLABLE}"
            )


def _put_fields(content: dict[str, Any], fields: dict[str, Any]) -> None:
    """Change a tokenizer.json as transformers does."""
    if fields.get("tokenizer_class") in PLAIN_CLASSES:
        return
    for name, (part, kind, target) in PLACES.items():
        step, value = content.get(part), fields.get(name)
        if value is not None and isinstance(step, dict) and step.get("type") == kind:
            step[target] = bool(value)


def _frame(backend: Backend, origin: str) -> tuple[list[str], list[str]]:
    """Return the tokens that a tokenizer puts before and after every text.

    Raises:
        InputError: The post-processor does something else.
    """
    with rust_errors(f"{origin} cannot be run by `tokenizers`: {{}}. Copy it anew."):
        framed = backend.encode_batch(PROBES)
        bare = backend.encode_batch(PROBES, add_special_tokens=False)
    row = next((row for row in framed if 0 in row.special_tokens_mask), framed[0])
    mask = row.special_tokens_mask
    first, last = (mask.index(0), mask[::-1].index(0)) if 0 in mask else (0, 0)
    start, end = row.ids[:first], row.ids[len(mask) - last :]
    for text, found, inner in zip(PROBES, framed, bare, strict=True):
        if found.ids != [*start, *inner.ids, *end] or any(found.type_ids):
            raise InputError(
                f"The post-processor of {origin} must put the same tokens around every "
                f"text, of type 0. Received: {found.ids[:20]} for {text!r:.80}. "
                f"{CALLABLE}"
            )
    names = [[str(backend.id_to_token(i)) for i in ids] for ids in (start, end)]
    return names[0], names[1]


def _named_tokens(
    folder: Path, fields: dict[str, Any]
) -> tuple[dict[str, str], set[str]]:
    """Return the special tokens that files beside tokenizer.json name.

    transformers reads special_tokens_map.json and added_tokens.json only where
    tokenizer_config.json has no `added_tokens_decoder`.

    Returns:
        Those with a role by its key, such as `pad_token`, and the others.
    """
    decoder = fields.get("added_tokens_decoder")
    places, others = [fields], {*map(_content, (decoder or {}).values())}
    if decoder is None:
        places.append(_optional(folder / MAP))
        others |= _optional(folder / ADDED).keys()
    roles: dict[str, str] = {}
    for key, value in (item for place in places for item in place.items()):
        if key in ROLE_KEYS and value is not None:
            roles[key] = _content(value)
        elif key.endswith("_token") and isinstance(value, str | dict):
            others.add(_content(value))
        elif key in EXTRA and isinstance(value, list | dict):
            several = value.values() if isinstance(value, dict) else value
            others |= {*map(_content, several)}
    return roles, others


def _check_added(
    folder: Path,
    fields: dict[str, Any],
    backend: Backend,
    roles: set[str],
    others: set[str],
) -> None:
    """Raise `InputError` where transformers would change the added tokens.

    It adds those that only other files declare, and most of its classes take those of
    tokenizer_config.json in place of those of tokenizer.json.
    """
    added = backend.get_added_tokens_decoder().values()
    spelled = {it.content: it for it in added if it.content not in roles}
    if absent := sorted(others - spelled.keys() - roles):
        raise _changed(folder, f"the added token {absent[0]!r:.80}, which is not in it")
    decoder = fields.get("added_tokens_decoder")
    if decoder is None or fields.get("tokenizer_class") in PLAIN_CLASSES:
        return
    declared = {_content(token): token for token in decoder.values()}
    for name, token in sorted(spelled.items()):
        if name not in declared:
            raise _changed(folder, f"{name!r:.80}, which {CONFIG} does not add")
        for flag in FLAGS:
            if declared[name].get(flag, getattr(token, flag)) != getattr(token, flag):
                raise _changed(
                    folder, f"{name!r:.80} with another `{flag}` in {CONFIG}"
                )


def _check_frame(
    folder: Path, fields: dict[str, Any], frame: tuple[list[str], list[str]]
) -> None:
    """Raise `InputError` where transformers would make the post-processor anew."""
    for key, around in zip(("bos", "eos"), frame, strict=True):
        added, token = fields.get(f"add_{key}_token"), fields.get(f"{key}_token")
        if None not in (added, token) and added != (_content(token) in around):
            reason = f"`add_{key}_token` {added} in {CONFIG}, which it does not do"
            raise _changed(folder, reason)


def _content(token: Any) -> str:
    return str(token.get("content") if isinstance(token, dict) else token)


def _changed(folder: Path, received: str) -> InputError:
    return InputError(
        f"The {FILE} in `{folder}` must give the ids that transformers gives. "
        f"Received: {received}. Load the tokenizer with `transformers` and write it "
        f'again with `tokenizer.save_pretrained("{folder}")`.'
    )


def _by_sentencepiece(tokenizer: BackendTokenizer, origin: str) -> Tokenizer:
    """Return a unigram tokenizer as SentencePiece, or as it is if ids would differ."""
    try:
        model = SentencePieceTokenizer(
            rebuild(json.loads(tokenizer.definition), origin), origin
        )
    except InputError as error:
        reason = str(error)
    else:
        texts = list(_probes(tokenizer))
        rows = zip(texts, tokenizer.encode(texts), model.encode(texts), strict=True)
        wrong = next((text for text, theirs, ours in rows if theirs != ours), None)
        if wrong is None:
            return model
        reason = f"SentencePiece would give other ids for {wrong!r:.80}"
    logger.info(
        "%s is run by the library `tokenizers`, and no format carries it: %s",
        origin,
        reason,
    )
    return tokenizer


def _probes(tokenizer: BackendTokenizer) -> Iterator[str]:
    """Yield texts without special tokens: known ones, and some made of pieces."""
    pieces = tokenizer.pieces()
    special = {*tokenizer.control_ids, tokenizer.unknown_id}
    texts = [
        piece.replace(BLANK, " ")
        for number, piece in enumerate(pieces)
        if number not in special
    ]
    yield from PROBES
    yield from (text for text in texts if " " in text.strip())
    # In any order: neighbours in the alphabet are splits that are equally likely.
    random.Random(0).shuffle(texts)
    for start in range(0, min(len(texts), MOST_PIECES), JOINED):
        part = texts[start : start + JOINED]
        for text in ("".join(part), " ".join(part)):
            if unicodedata.is_normalized("NFKC", text):
                yield text
