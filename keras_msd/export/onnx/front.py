"""From strings to token ids and mask inside an ONNX graph."""

import numpy as np

from keras_msd.checks import InputError
from keras_msd.export.formats import NO_FORMAT
from keras_msd.export.onnx.graph import INT32, LAST, Graph
from keras_msd.export.onnx.unigram import unigram_ids
from keras_msd.export.onnx.wordpiece import wordpiece_ids
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer
from keras_msd.tokenizers.wordpiece import WordPieceTokenizer


def token_ids(
    graph: Graph, tokenizer: Tokenizer, max_length: int, text: str
) -> tuple[str, str]:
    """Append a tokenizer to a graph.

    Args:
        graph: Gets the nodes.
        tokenizer: A SentencePiece unigram or a WordPiece tokenizer.
        max_length: Most ids per sentence, start and end included; a longer sentence
            loses ids before its end token, which stays.
        text: Strings `(n,)` in UTF-8.

    Returns:
        `token_ids` and `padding_mask` (1 on real tokens), int32 `(n, length)`.

    Raises:
        InputError: No operator gives the ids of such a tokenizer.
    """
    if isinstance(tokenizer, SentencePieceTokenizer):
        flat, splits = unigram_ids(graph, tokenizer, text)
    elif isinstance(tokenizer, WordPieceTokenizer):
        flat, splits = wordpiece_ids(graph, tokenizer, text)
    else:
        raise InputError(
            "A tokenizer in an ONNX file must be of kind unigram or wordpiece. "
            f"Received: {tokenizer.kind}. {NO_FORMAT}"
        )
    return _padded(graph, tokenizer, max_length, flat, splits)


def _padded(
    graph: Graph, tokenizer: Tokenizer, max_length: int, flat: str, splits: str
) -> tuple[str, str]:
    """Return a rectangle of ids with start and end, and its mask.

    `flat` int64 holds the ids of all rows; those of row i are `flat[splits[i] :
    splits[i + 1]]`.
    """

    def number(value: int) -> str:
        return graph.constant(value, np.int64)

    numbers = graph.numbers
    starts = graph.part(splits, 0, -1)
    lengths = graph.node("Sub", graph.part(splits, 1, LAST), starts)
    kept = graph.node("Min", lengths, number(max_length - 2))
    longest = graph.node("Concat", kept, numbers(0), axis=0)
    longest = graph.node("ReduceMax", longest, numbers(0), keepdims=0)
    width = graph.node("Add", longest, number(2))
    column = graph.node("Range", number(0), width, number(1))
    end = graph.node("Add", graph.node("Unsqueeze", kept, numbers(1)), number(1))

    first = graph.node("Unsqueeze", graph.node("Sub", starts, number(1)), numbers(1))
    places = graph.node("Add", first, column)
    # Columns beyond a row's end are replaced below; they must only exist.
    with_spare = graph.node("Concat", flat, numbers(tokenizer.pad_id), axis=0)
    last = graph.node("Squeeze", graph.node("Shape", flat), numbers(0))
    places = graph.node("Max", graph.node("Min", places, last), number(0))
    ids = graph.node("Gather", with_spare, places)

    is_end = graph.node("Equal", column, end)
    ids = graph.node("Where", is_end, number(tokenizer.end_id), ids)
    real = graph.node("LessOrEqual", column, end)
    ids = graph.node("Where", real, ids, number(tokenizer.pad_id))
    is_start = graph.node("Equal", column, number(0))
    ids = graph.node("Where", is_start, number(tokenizer.start_id), ids)
    return (
        graph.node("Cast", ids, to=INT32),
        graph.node("Cast", real, to=INT32),
    )
