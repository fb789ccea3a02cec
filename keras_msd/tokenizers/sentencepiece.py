"""SentencePiece unigram vocabularies with the ids of XLM-RoBERTa: read, learned."""

import base64
import importlib
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from google.protobuf.message import DecodeError

from keras_msd.checks import InputError, at_least, explained, sentences
from keras_msd.tokenizers.base import Tokenizer

_FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
_FIRST_IN_MODEL = ["<unk>", "<s>", "</s>"]
BLANK = "▁"  # how a piece shows one
# Steps of a tokenizer.json that SentencePiece has, too, or that its table does by
# itself; and what a Replace among them looks for: blanks, "i" and a dot, a last sigma.
_STEPS = {
    "Precompiled",
    "Strip",
    "Lowercase",
    "Replace",
    "WhitespaceSplit",
    "Metaspace",
}
_REPLACED = {" {2,}", "^ | $", "i\u0307", "ς"}
# The trainer sums floats per thread, so the count decides the last digits: it must not
# follow the machine.
_THREADS = 2
_ERRORS_ONLY = 2
# The trainer takes no smaller sample.
_SAMPLE = 1_000_000  # sentences kept in memory
_COVERAGE = 0.9995  # of all characters get a piece; the rarest are unknown
# Our ids have `<pad>`, which the SentencePiece model does not.
_EXTRA_ROWS = 1


class SentencePieceTokenizer(Tokenizer):
    """A unigram vocabulary: the likeliest split of a text into pieces.

    Ids are those of XLM-RoBERTa: `<s>` 0, `<pad>` 1, `</s>` 2, `<unk>` 3, and from 4 on
    the id in the SentencePiece model plus one. A `<mask>` row is a control piece at the
    end of the model.

    Args:
        model: A serialised SentencePiece `ModelProto` of type unigram whose first
            pieces are `<unk>`, `<s>`, `</s>`.
        origin: Where the model comes from, for messages.

    Raises:
        InputError: `model` is damaged or of another type.

    Source: Kudo, ACL 2018 (arXiv:1804.10959); ids as Conneau et al., ACL 2020.

    Example:
        >>> model = msd.testing.tiny_tokenizer().definition
        >>> msd.tokenizers.SentencePieceTokenizer(model).pieces()[:4]
        ['<s>', '<pad>', '</s>', '<unk>']
    """

    kind = "unigram"
    definition_file = "sentencepiece.model"
    start_ids, pad_id, end_ids, unknown_id = (0,), 1, (2,), 3

    def __init__(self, model: bytes, origin: str = "`model`") -> None:
        from sentencepiece import SentencePieceProcessor

        damaged = f"{origin} is not a whole SentencePiece model. Copy it anew."
        with explained(damaged, RuntimeError, DecodeError, TypeError, UnicodeError):
            self._processor = SentencePieceProcessor(model_proto=model)
            proto = _checked(model, origin)
            self._pieces = _FIRST + [piece.piece for piece in proto.pieces[3:]]
            _ = "".join(self._pieces).encode()  # what is not UTF-8 is given as bytes
        self._model = model
        self.vocabulary_size = len(self._pieces)

    def encode_plain(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without start and end."""
        rows = self._processor.encode(sentences(texts))
        unknown = self.unknown_id
        return [[number + 1 if number else unknown for number in row] for row in rows]

    def split_pieces(self, pieces: Iterable[str]) -> list[list[int]]:
        """Return the ids that pieces of another vocabulary are made of here.

        Each is split as it stands inside a text: no blank is put before it.
        """
        proto = parse(self._model)
        proto.normalizer_spec.add_dummy_prefix = False
        proto.normalizer_spec.remove_extra_whitespaces = False
        inside = SentencePieceTokenizer(proto.SerializeToString(deterministic=True))
        return inside.encode_plain(piece.replace(BLANK, " ") for piece in pieces)

    def unusual_feature(self) -> str | None:
        """Return what only SentencePiece itself reads exactly, if the model has it."""
        proto = parse(self._model)
        if proto.trainer_spec.byte_fallback:
            return "byte fallback"
        if proto.trainer_spec.treat_whitespace_as_suffix:
            return "blanks at the end of a word"
        user_defined = proto.SentencePiece.USER_DEFINED
        # Versions of SentencePiece rank them differently.
        if any(piece.type == user_defined for piece in proto.pieces):
            return "user-defined pieces"
        return None

    def pieces(self) -> list[str]:
        """Return the token of every id; "▁" in it stands for a blank."""
        return list(self._pieces)

    @property
    def definition(self) -> bytes:
        """The serialised SentencePiece model."""
        return self._model

    @classmethod
    def from_definition(
        cls, definition: bytes, settings: dict[str, Any], origin: str
    ) -> Self:
        """Make a tokenizer from a serialised model; `settings` must be empty."""
        if settings:
            raise InputError(
                f"The settings beside {origin} have unknown fields: "
                f"{', '.join(sorted(settings))}. Save the tokenizer anew."
            )
        return cls(definition, origin)


def _checked(model: bytes, origin: str) -> Any:
    proto = parse(model)
    spec = proto.trainer_spec
    if spec.model_type != spec.UNIGRAM:
        raise InputError(
            f"The SentencePiece model in {origin} must be of type UNIGRAM. Received: "
            f"{spec.ModelType.Name(spec.model_type)}. Only that type gives the same "
            "ids in Python and in a saved graph; train one with `train_unigram`."
        )
    first = [piece.piece for piece in proto.pieces[:3]]
    if first != _FIRST_IN_MODEL:
        raise InputError(
            f"The first pieces of {origin} must be <unk>, <s>, </s>, as XLM-RoBERTa's "
            f"are. Received: {', '.join(first) or 'no pieces'}. Take another model."
        )
    return proto


def rebuild(content: dict[str, Any], origin: str) -> bytes:
    """Return the serialised SentencePiece model that a tokenizer.json was made from.

    Args:
        content: The parsed tokenizer.json, whose ids have no gaps.
        origin: Where it comes from, for messages.

    Raises:
        InputError: SentencePiece cannot do the same: the vocabulary has other ids than
            XLM-RoBERTa's, scores have more digits, the text is prepared in another way,
            or an added token is not special, so that it would be looked for in texts.
    """
    model = content["model"]
    added = {token["id"]: token for token in content.get("added_tokens", [])}
    rows = [(*row, number in added) for number, row in enumerate(model["vocab"])]
    behind = [token for number, token in sorted(added.items()) if number >= len(rows)]
    rows += [(token["content"], 0.0, True) for token in behind]
    scores = np.array([score for _, score, _ in rows])
    first = [piece for piece, _, _ in rows[:4]]
    if first != _FIRST or model.get("unk_id") != 3:
        raise _other(origin, f"the first pieces {', '.join(first)}")
    if plain := [token["content"] for token in added.values() if not token["special"]]:
        raise _other(origin, f"the added tokens {', '.join(plain[:5])}")
    # The library's last digit is not that of the file.
    if not np.allclose(scores, scores.astype(np.float32), rtol=1e-14, atol=0):
        raise _other(origin, "scores with more digits than SentencePiece keeps")
    schema = _schema()
    types = schema.ModelProto.SentencePiece
    proto = schema.ModelProto()
    kinds = (types.UNKNOWN, types.CONTROL, types.CONTROL)
    for name, kind in zip(_FIRST_IN_MODEL, kinds, strict=True):
        proto.pieces.add(piece=name, score=0.0, type=kind)
    for number, (piece, score, control) in enumerate(rows[4:], 5):
        # An older file lists `<mask>` in the vocabulary and not among the added tokens.
        control = control or (piece == "<mask>" and number == len(rows))
        kind = types.CONTROL if control else types.NORMAL
        proto.pieces.add(piece=piece, score=score, type=kind)
    proto.trainer_spec.model_type = schema.TrainerSpec.UNIGRAM
    proto.trainer_spec.vocab_size = len(proto.pieces)
    spec = proto.normalizer_spec
    spec.precompiled_charsmap = _character_table(content, origin)
    spec.add_dummy_prefix = spec.remove_extra_whitespaces = True
    spec.escape_whitespaces = True
    return proto.SerializeToString(deterministic=True)


def _other(origin: str, received: str) -> InputError:
    return InputError(
        f"{origin} must be a unigram vocabulary with the ids of XLM-RoBERTa "
        f"({', '.join(_FIRST)}, then the pieces) that SentencePiece can run. Received: "
        f"{received}."
    )


def _character_table(content: dict[str, Any], origin: str) -> bytes:
    """Return what the steps before the model are in SentencePiece."""
    table = b""
    parts = content.get("normalizer"), content.get("pre_tokenizer")
    for step in (step for part in parts for step in _steps(part)):
        pattern = step.get("pattern")
        replaced = {*pattern.values()} if isinstance(pattern, dict) else set()
        if step["type"] not in _STEPS or not replaced <= _REPLACED:
            raise _other(origin, f"the step {step['type']}")
        if step["type"] == "Precompiled":
            table = base64.b64decode(step["precompiled_charsmap"] or "")
    return table


def extend_unigram(tokenizer: Tokenizer, other: Tokenizer) -> SentencePieceTokenizer:
    """Give a unigram vocabulary the pieces of another one that it lacks.

    They come at its end, so that all ids stay, with the scores that they have: both are
    logarithms of probabilities, and a piece is likelier than those that it is made of.
    Texts are prepared as by the first.

    Args:
        tokenizer: Whose ids stay; it is not changed.
        other: Has more pieces.

    Raises:
        InputError: One of both is of another kind.

    Source: ours, after the augmentation of Chau et al. 2020 (arXiv:2009.14124).

    Example:
        >>> known = msd.testing.tiny_tokenizer()
        >>> texts = ["Der Nebel ist dicht.", "Der Nebel kommt."]
        >>> own = msd.tokenizers.train_unigram(texts, 40, at_most=True)
        >>> more = msd.tokenizers.extend_unigram(known, own)
        >>> more.pieces()[:90] == known.pieces(), more.vocabulary_size > 90
        (True, True)
    """
    for given in (tokenizer, other):
        if given.kind != SentencePieceTokenizer.kind:
            raise InputError(
                "Only a unigram vocabulary can have more pieces. Received: "
                f"{given.kind}. Keep it as it is."
            )
    proto, there = parse(tokenizer.definition), {*tokenizer.pieces()}
    new = [
        row
        for row in parse(other.definition).pieces
        if row.type == row.NORMAL and row.piece not in there
    ]
    return SentencePieceTokenizer(with_pieces(proto, [*proto.pieces, *new]))


def with_pieces(proto: Any, pieces: Iterable[Any]) -> bytes:
    """Return a serialised model that differs from another one in its pieces."""
    # A fresh model, because a published one may carry examples of how all of its pieces
    # split a text, which TensorFlow's operation tries when it loads.
    made = type(proto)()
    made.pieces.extend(pieces)
    for part in ("trainer_spec", "normalizer_spec", "denormalizer_spec"):
        if proto.HasField(part):
            getattr(made, part).CopyFrom(getattr(proto, part))
    made.trainer_spec.vocab_size = len(made.pieces)
    return made.SerializeToString(deterministic=True)


def parse(model: bytes) -> Any:
    """Return a serialised model as a `ModelProto`."""
    return _schema().ModelProto.FromString(model)


def _schema() -> Any:
    return importlib.import_module("sentencepiece.sentencepiece_model_pb2")


def _steps(part: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normalizer or pre-tokenizer, sequences taken apart."""
    inner = (part or {}).get("normalizers") or (part or {}).get("pretokenizers")
    if inner is not None:
        for step in inner:
            yield from _steps(step)
    elif part is not None:
        yield part


def train_unigram(
    texts: Iterable[str],
    vocabulary_size: int,
    at_most: bool = False,
    case_fold: bool = False,
) -> SentencePieceTokenizer:
    """Learn a unigram vocabulary; the same texts always give the same bytes.

    Text is normalised as in XLM-RoBERTa (NFKC with SentencePiece's own additions).

    Args:
        texts: Sentences, walked through once. Lines of over 4192 bytes are left out;
            of more than a million, a fixed random choice is learned from.
        vocabulary_size: Rows of the word table, the four special tokens included.
        at_most: Take fewer rows where the texts have no more pieces.
        case_fold: Make capitals small letters first, so that both share their pieces.

    Raises:
        InputError: The texts are too few, or too varied, for so many rows; the message
            gives the largest, or smallest, number that works.

    Source: Kudo, ACL 2018 (arXiv:1804.10959).

    Example:
        >>> texts = [pair.target for pair in msd.testing.tiny_pairs()]
        >>> tokenizer = msd.tokenizers.train_unigram(texts, 60)
        >>> tokenizer.vocabulary_size, tokenizer.encode([""])
        (60, [[0, 2]])
    """
    from sentencepiece import SentencePieceTrainer

    at_least(5, vocabulary_size=vocabulary_size)
    model, count = io.BytesIO(), 0
    unreadable: list[Exception] = []  # the trainer would hide an error of theirs

    def read() -> Iterator[str]:
        nonlocal count
        try:
            for text in texts:
                yield from sentences([text], first=count)
                count += 1
        except Exception as error:
            unreadable.append(error)
            raise

    try:
        SentencePieceTrainer.train(
            sentence_iterator=read(),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocabulary_size - _EXTRA_ROWS,
            normalization_rule_name="nmt_nfkc_cf" if case_fold else "nmt_nfkc",
            character_coverage=_COVERAGE,
            input_sentence_size=_SAMPLE,
            shuffle_input_sentence=True,
            hard_vocab_limit=not at_most,
            num_threads=_THREADS,
            minloglevel=_ERRORS_ONLY,
        )
    except RuntimeError as error:
        if unreadable:
            raise unreadable[0] from None
        raise _no_vocabulary(error, vocabulary_size, count) from error
    return SentencePieceTokenizer(model.getvalue())


def _no_vocabulary(error: RuntimeError, size: int, count: int) -> InputError:
    rule = "A vocabulary needs texts that are not empty."
    repair = f"SentencePiece says: {error}"
    if too_many := re.search(r"value <= (\d+)", str(error)):
        largest = int(too_many[1]) + _EXTRA_ROWS
        rule = f"`vocabulary_size` must be at most {largest} for these texts."
        repair = "Lower it, or give more text."
    elif too_few := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
        smallest = int(too_few[1]) + _EXTRA_ROWS
        rule = f"`vocabulary_size` must be at least {smallest} to spell these texts."
        repair = "Raise it."
    return InputError(
        f"{rule} Received: vocabulary_size={size}, {count} texts. {repair}"
    )
