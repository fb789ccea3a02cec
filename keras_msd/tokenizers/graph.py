"""A tokenizer as TensorFlow operations, for `tf.data` and saved graphs."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import tensorflow as tf

from keras_msd.checks import InputError, at_least, explained
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, parse
from keras_msd.tokenizers.tokenizer_json import WordPieceTokenizer, character_rules


def tensorflow_text(purpose: str) -> ModuleType:
    """Import the package whose operations split texts in a graph.

    Args:
        purpose: What needs it, for the message.

    Raises:
        InputError: It is not installed.
    """
    missing = (
        f"{purpose} needs the package tensorflow-text, which has no wheel for Windows. "
        'Install it on Linux or macOS with: pip install "tensorflow-text>=2.21.1,<2.22"'
        "; or export as litert or onnx, which take token ids."
    )
    with explained(missing, ImportError):
        return importlib.import_module("tensorflow_text")


class GraphTokenizer(tf.Module):
    """Gives the ids that a Python tokenizer gives, from string tensors.

    A module that has it as an attribute can be saved with `tf.saved_model.save`; the
    saved graph needs tensorflow and tensorflow_text, and nothing else.

    Shapes: `text` string `(n,)` of UTF-8; returns `token_ids` and `padding_mask` (1 on
    real tokens), int32 `(n, length)`.

    Args:
        tokenizer: Of a kind in `GRAPH_IDS`: a SentencePiece unigram or a WordPiece
            tokenizer, with one token before a text and one after it.
        max_length: Most ids per sentence, start and end included; a longer sentence
            loses ids before its end token, which stays.

    Raises:
        InputError: No operation gives the ids of such a tokenizer.

    Example:
        >>> tokenizer = msd.testing.tiny_tokenizer()
        >>> graph = msd.tokenizers.GraphTokenizer(tokenizer, max_length=8)
        >>> ids = graph(["The cat"])["token_ids"].numpy()[0].tolist()
        >>> ids == tokenizer.encode(["The cat"])[0]
        True
    """

    def __init__(self, tokenizer: Tokenizer, max_length: int) -> None:
        super().__init__(name="graph_tokenizer")
        at_least(2, max_length=max_length)
        self.max_length = max_length
        self.pad_id = tokenizer.pad_id
        self.start_id, self.end_id = tokenizer.start_id, tokenizer.end_id
        if tokenizer.kind not in GRAPH_IDS:
            raise InputError(
                f"A tokenizer in a graph must be of kind {' or '.join(GRAPH_IDS)}. "
                f"Received: {tokenizer.label}. TensorFlow has no operation that gives "
                "its ids: tokenize in Python."
            )
        self.plain = GRAPH_IDS[tokenizer.kind](tokenizer)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def __call__(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return `token_ids` and `padding_mask`."""
        ids = self.plain(text)[:, : self.max_length - 2]
        edge = tf.ones([tf.size(text), 1], tf.int32)
        ids = tf.concat([edge * self.start_id, ids, edge * self.end_id], axis=1)
        token_ids = ids.to_tensor(self.pad_id)
        mask = tf.sequence_mask(ids.row_lengths(), tf.shape(token_ids)[1], tf.int32)
        return {"token_ids": token_ids, "padding_mask": mask}


class UnigramIds(tf.Module):
    """Ids of a SentencePiece model, shifted to those of XLM-RoBERTa."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        super().__init__(name="unigram")
        if feature := inexact_feature(tokenizer):
            raise InputError(
                "A SentencePiece tokenizer in a graph must prepare text as that of "
                f"XLM-RoBERTa does. Received: {feature}. The operation of TensorFlow "
                "and MediaPipe gives other ids then, without a word. Tokenize in "
                "Python; to export, try format='litert' or 'onnx', which take ids."
            )
        self.unknown_id = tokenizer.unknown_id
        # Not `SentencepieceTokenizer`: for some texts with "…" it gives other ids.
        text = tensorflow_text("A SentencePiece tokenizer in a graph")
        self.pieces = text.FastSentencepieceTokenizer(tokenizer.definition)

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of each text, without start and end."""
        ids = self.pieces.tokenize(text).with_row_splits_dtype(tf.int64)
        shifted = tf.where(ids.values == 0, self.unknown_id, ids.values + 1)
        return ids.with_values(shifted)


def inexact_feature(tokenizer: SentencePieceTokenizer) -> str | None:
    """Return what keeps the graph operation from giving a tokenizer's ids, if anything.

    Source: measured on texts in many scripts, one feature at a time.
    """
    if feature := tokenizer.unusual_feature():
        return feature
    if not parse(tokenizer.definition).normalizer_spec.add_dummy_prefix:
        return "no blank before the first word"
    blanks = tokenizer.encode_plain([f"a{blank}b" for blank in " \t\r\n"])
    if any(ids != blanks[0] for ids in blanks):
        return "a tab or the end of a line differs from a blank"
    return None


class WordPieceIds(tf.Module):
    """BERT's preparation by a table of characters, then the longest pieces."""

    def __init__(self, tokenizer: WordPieceTokenizer) -> None:
        super().__init__(name="wordpiece")
        if added := tokenizer.added_tokens():
            raise InputError(
                "A WordPiece tokenizer in a graph must have no added tokens besides "
                f"special ones. Received: {added}. Run it in Python."
            )
        rules = character_rules(tokenizer.backend)
        columns = map(tf.constant, zip(*rules, strict=True))
        self.starts, self.before, self.keep, self.after = columns
        model = tokenizer.backend.model
        self.longest_word = model.max_input_chars_per_word
        self.unknown = tokenizer.pieces()[tokenizer.unknown_id]
        text = tensorflow_text("A WordPiece tokenizer in a graph")
        self.pieces = text.FastWordpieceTokenizer(
            vocab=tokenizer.pieces(),
            suffix_indicator=model.continuing_subword_prefix,
            # The operation's limit counts bytes; ours, below, counts characters.
            max_bytes_per_word=4 * self.longest_word,
            token_out_type=tf.int32,
            unknown_token=self.unknown,
            no_pretokenization=True,
        )

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of each text, without start and end."""
        words = tf.strings.split(self._prepared(text))
        lengths = tf.strings.length(words.values, unit="UTF8_CHAR")
        known = tf.where(lengths > self.longest_word, self.unknown, words.values)
        return self.pieces.tokenize(words.with_values(known)).merge_dims(1, 2)

    def _prepared(self, text: tf.Tensor) -> tf.Tensor:
        codes = tf.strings.unicode_decode(text, "UTF-8")
        rule = tf.searchsorted(self.starts, codes.values, side="right") - 1
        character = tf.strings.unicode_encode(codes.values[:, None], "UTF-8")
        kept = tf.where(tf.gather(self.keep, rule), character, "")
        parts = [tf.gather(self.before, rule), kept, tf.gather(self.after, rule)]
        return tf.strings.reduce_join(codes.with_values(tf.strings.join(parts)), axis=1)


# By kind: makes of a tokenizer a `tf.Module` that maps strings `(n,)` to a ragged int32
# tensor of ids without start and end.
GRAPH_IDS: dict[str, Callable[[Any], Any]] = {
    "unigram": UnigramIds,
    "wordpiece": WordPieceIds,
}
