"""A SentencePiece model from the tokenizer.json of a unigram vocabulary."""

import base64
import binascii
import importlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from keras_msd.checks import InputError

_FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
# Two ways of writing that runs of blanks count as one, as SentencePiece has it.
_BLANKS = {("Replace", " {2,}"), ("WhitespaceSplit", None)}
_KNOWN_STEPS = ("Precompiled", "Strip", "Replace", "WhitespaceSplit", "Metaspace")


class Row(NamedTuple):
    """One id of the vocabulary; `control` rows stand for no text."""

    piece: str
    score: float
    control: bool


def vocabulary(content: dict[str, Any], origin: str) -> list[Row]:
    """Return the rows of a tokenizer.json, added tokens included, in order of id.

    Raises:
        InputError: The ids are not those of XLM-RoBERTa, or an added token is not
            special, so that it would be looked for in texts.
    """
    model = content["model"]
    added = {token["id"]: token for token in content.get("added_tokens", [])}
    plain = [token["content"] for token in added.values() if not token["special"]]
    if plain:
        raise InputError(
            f"{origin} must have no added tokens besides special ones. Received: "
            f"{', '.join(plain[:5])}. Take the checkpoint before they were added."
        )
    rows = [
        Row(piece, score, number in added)
        for number, (piece, score) in enumerate(model["vocab"])
    ]
    for number in range(len(rows), len(rows) + len(added)):
        if number in added:
            rows.append(Row(added[number]["content"], 0.0, True))
    first = [row.piece for row in rows[:4]]
    gaps = max(added, default=0) >= len(rows)
    if first != _FIRST or model.get("unk_id") != 3 or gaps:
        raise InputError(
            f"The ids in {origin} must be those of XLM-RoBERTa: {', '.join(_FIRST)}, "
            f"then the pieces, without gaps. Received: {', '.join(first)}. Only such "
            "unigram vocabularies are supported."
        )
    # An older file lists `<mask>` in the vocabulary and not among the added tokens.
    if rows[-1].piece == "<mask>":
        rows[-1] = rows[-1]._replace(control=True)
    return rows


def rebuild(content: dict[str, Any], origin: str) -> bytes:
    """Return the serialised SentencePiece model that a tokenizer.json was made from.

    Args:
        content: The parsed tokenizer.json, which the `tokenizers` library has accepted.
        origin: Where it comes from, for messages.

    Raises:
        InputError: The vocabulary has other ids than XLM-RoBERTa's, or the text is
            prepared in a way that SentencePiece does not know.
    """
    schema = _schema()
    types = schema.ModelProto.SentencePiece
    byte_fallback = bool(content["model"].get("byte_fallback"))
    proto = schema.ModelProto()
    for name, kind in (
        ("<unk>", types.UNKNOWN),
        ("<s>", types.CONTROL),
        ("</s>", types.CONTROL),
    ):
        proto.pieces.add(piece=name, score=0.0, type=kind)
    for row in vocabulary(content, origin)[4:]:
        is_byte = byte_fallback and row.piece.startswith("<0x") and len(row.piece) == 6
        kind = types.CONTROL if row.control else types.BYTE if is_byte else types.NORMAL
        proto.pieces.add(piece=row.piece, score=row.score, type=kind)
    proto.trainer_spec.model_type = schema.TrainerSpec.UNIGRAM
    proto.trainer_spec.vocab_size = len(proto.pieces)
    proto.trainer_spec.byte_fallback = byte_fallback
    _set_normalizer(proto.normalizer_spec, content, origin)
    return proto.SerializeToString(deterministic=True)


def add_control(model: bytes, names: Iterable[str]) -> bytes:
    """Return a serialised model with control pieces, which match no text, appended."""
    proto = _schema().ModelProto.FromString(model)
    for name in names:
        proto.pieces.add(piece=name, score=0.0, type=proto.SentencePiece.CONTROL)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString(deterministic=True)


def parse(model: bytes) -> Any:
    """Return a serialised model as a `ModelProto`."""
    return _schema().ModelProto.FromString(model)


def _schema() -> Any:
    return importlib.import_module("sentencepiece.sentencepiece_model_pb2")


def _set_normalizer(spec: Any, content: dict[str, Any], origin: str) -> None:
    steps = list(_steps(content.get("normalizer"), "normalizers"))
    splits = list(_steps(content.get("pre_tokenizer"), "pretokenizers"))
    for step in steps + splits:
        if step["type"] not in _KNOWN_STEPS:
            raise InputError(
                f"{origin} prepares text by {step['type']}, which SentencePiece does "
                "not know. Put the checkpoint's SentencePiece model beside it."
            )
    tables = [step for step in steps if step["type"] == "Precompiled"]
    try:
        for step in tables:
            table = step["precompiled_charsmap"] or ""
            spec.precompiled_charsmap = base64.b64decode(table, validate=True)
    except binascii.Error as error:
        raise InputError(
            f"`precompiled_charsmap` in {origin} is not base64: {error}. Copy it anew."
        ) from error
    spec.remove_extra_whitespaces = any(
        (step["type"], step.get("pattern", {}).get("Regex")) in _BLANKS
        for step in steps + splits
    )
    metaspace = [step for step in splits if step["type"] == "Metaspace"]
    spec.add_dummy_prefix = any(
        step.get("prepend_scheme", "always") != "never"
        and step.get("add_prefix_space", True)
        for step in metaspace
    )
    spec.escape_whitespaces = True


def _steps(part: dict[str, Any] | None, inner: str) -> Iterator[dict[str, Any]]:
    if part is None:
        return
    if part["type"] != "Sequence":
        yield part
        return
    for step in part[inner]:
        yield from _steps(step, inner)
