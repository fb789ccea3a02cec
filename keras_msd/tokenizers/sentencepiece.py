"""SentencePiece unigram vocabularies with the ids of XLM-RoBERTa."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from keras_msd.checks import InputError
from keras_msd.files import read_json
from keras_msd.tokenizers.base import Tokenizer, checked_texts
from keras_msd.tokenizers.rebuild import add_control, parse, rebuild, vocabulary

MODEL_FILES = ("sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")


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
    """

    kind = "unigram"
    definition_file = "sentencepiece.model"
    start_id, pad_id, end_id, unknown_id = 0, 1, 2, 3

    def __init__(self, model: bytes, origin: str = "`model`") -> None:
        from sentencepiece import SentencePieceProcessor

        try:
            self._processor = SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise InputError(
                f"{origin} is not a whole SentencePiece model. Copy it anew."
            ) from error
        proto = _checked(model, origin)
        self._model = model
        self._pieces = ["<s>", "<pad>", "</s>", "<unk>"]
        self._pieces += [piece.piece for piece in proto.pieces[3:]]
        self.vocabulary_size = len(self._pieces)
        self.byte_fallback = proto.trainer_spec.byte_fallback

    def encode_plain(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without start and end."""
        rows = self._processor.encode(checked_texts(texts))
        unknown = self.unknown_id
        return [[number + 1 if number else unknown for number in row] for row in rows]

    def unusual_feature(self) -> str | None:
        """Return what only SentencePiece itself reads exactly, if the model has it."""
        proto = parse(self._model)
        if self.byte_fallback:
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

    @property
    def settings(self) -> dict[str, str]:
        """Nothing: the model says it all."""
        return {}

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

    @classmethod
    def from_checkpoint(cls, folder: Path) -> Self:
        """Read a SentencePiece model file; without one, rebuild it from tokenizer.json.

        Raises:
            InputError: A file is damaged, or the two describe different vocabularies.
        """
        path = folder / "tokenizer.json"
        found = [folder / name for name in MODEL_FILES if (folder / name).is_file()]
        if not found:
            return cls(rebuild(read_json(path), f"`{path}`"), f"`{path}`")
        origin = f"`{found[0]}`"
        tokenizer = cls(found[0].read_bytes(), origin)
        # transformers adds the row for `<mask>` that the model file does not have.
        names = ["<mask>"]
        if path.is_file():
            rows = [row.piece for row in vocabulary(read_json(path), f"`{path}`")]
            names = rows[tokenizer.vocabulary_size :]
            if rows != tokenizer.pieces() + names:
                raise InputError(
                    f"{origin} and `{path}` must hold the same vocabulary and do not. "
                    "Remove the one that the model was not trained with."
                )
        return cls(add_control(tokenizer.definition, names), origin)


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
    if first != ["<unk>", "<s>", "</s>"]:
        raise InputError(
            f"The first pieces of {origin} must be <unk>, <s>, </s>, as XLM-RoBERTa's "
            f"are. Received: {', '.join(first) or 'no pieces'}. Take another model."
        )
    return proto
