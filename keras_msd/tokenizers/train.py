"""A SentencePiece vocabulary learned from the texts at hand."""

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.tokenizers.base import checked_texts
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer

# The trainer sums floats per thread, so the count decides the last digits: it must not
# follow the machine.
_THREADS = 2
_ERRORS_ONLY = 2
# The trainer takes no smaller sample.
_LEAST_SAMPLE = 101
# Our ids have `<pad>`, which the SentencePiece model does not.
_EXTRA_ROWS = 1


def train_unigram(
    texts: Iterable[str],
    vocabulary_size: int,
    folder: str | Path | None = None,
    sample: int = 1_000_000,
    character_coverage: float = 0.9995,
) -> SentencePieceTokenizer:
    """Learn a unigram vocabulary; the same texts always give the same bytes.

    Text is normalised as in XLM-RoBERTa (NFKC with SentencePiece's own additions).

    Args:
        texts: Sentences, walked through once. Lines of over 4192 bytes are left out.
        vocabulary_size: Rows of the word table, the four special tokens included.
        folder: Where to save the tokenizer, if anywhere.
        sample: Sentences kept in memory, over 100; of more, a fixed random choice.
        character_coverage: Share of all characters in the texts that get a piece of
            their own, in (0, 1]; the rarest of the others are unknown.

    Raises:
        InputError: The texts are too few, or too varied, for so many rows; the message
            gives the largest, or smallest, number that works.

    Source: Kudo, ACL 2018 (arXiv:1804.10959).
    """
    from sentencepiece import SentencePieceTrainer

    checks.at_least(5, vocabulary_size=vocabulary_size)
    checks.at_least(_LEAST_SAMPLE, sample=sample)
    if not 0 < character_coverage <= 1:
        raise InputError(
            "`character_coverage` must be above 0 and at most 1. Received: "
            f"character_coverage={character_coverage}."
        )
    model, reader = io.BytesIO(), _Reader(texts)
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(reader),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocabulary_size - _EXTRA_ROWS,
            normalization_rule_name="nmt_nfkc",
            character_coverage=character_coverage,
            input_sentence_size=sample,
            shuffle_input_sentence=True,
            num_threads=_THREADS,
            minloglevel=_ERRORS_ONLY,
        )
    except RuntimeError as error:
        if reader.error is not None:
            raise reader.error from None
        raise _explained(error, vocabulary_size, reader.count) from error
    tokenizer = SentencePieceTokenizer(model.getvalue())
    if folder is not None:
        tokenizer.save(folder)
    return tokenizer


class _Reader:
    """Hands texts to the trainer, which would hide an error raised in reading them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts, self.count = texts, 0
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for text in self.texts:
                self.count += 1
                yield checked_texts([text])[0]
        except Exception as error:
            self.error = error
            raise


def _explained(error: RuntimeError, size: int, count: int) -> InputError:
    too_many = re.search(r"value <= (\d+)", str(error))
    too_few = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
    received = f"Received: vocabulary_size={size}, {count} texts."
    if too_many:
        largest = int(too_many[1]) + _EXTRA_ROWS
        return InputError(
            f"`vocabulary_size` must be at most {largest} for these texts. {received} "
            "Lower it, or give more text."
        )
    if too_few:
        smallest = int(too_few[1]) + _EXTRA_ROWS
        return InputError(
            f"`vocabulary_size` must be at least {smallest} to spell these texts. "
            f"{received} Raise it, or lower `character_coverage`."
        )
    return InputError(
        f"A vocabulary needs texts that are not empty. {received} "
        f"SentencePiece says: {error}"
    )
