"""A SentencePiece unigram vocabulary as an operator of onnxruntime-extensions."""

import numpy as np

from keras_msd.export.onnx.graph import INT32, INT64, Graph
from keras_msd.export.onnx.strings import (
    extension,
    one_more_row,
    one_row_less,
    without_nul,
)
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer


def unigram_ids(
    graph: Graph, tokenizer: SentencePieceTokenizer, text: str
) -> tuple[str, str]:
    """Append the tokenizer; `text` is strings `(n,)`.

    The operator is an older release of the SentencePiece library. Where two splits of a
    word are equally likely ("00" + "0" and "0" + "00"), it may take the other one.

    Returns:
        The ids of all rows, int64, without start and end, and where each row starts,
        int64 `(n + 1,)`.
    """
    text = without_nul(graph, one_more_row(graph, text), tokenizer.encode_plain)
    flag = graph.constant([False])
    # The operator has a switch for XLM-RoBERTa's ids. It shifts the ids of a batch's
    # first row once for every row, so the shift is made here.
    numbers, splits = extension(
        graph,
        "SentencepieceTokenizer",
        text,
        graph.constant([0], np.int64),
        graph.constant([0], np.float32),
        flag,
        flag,
        flag,
        gives=[INT32, INT64],
        model=tokenizer.definition,
    )
    numbers = graph.node("Cast", numbers, to=INT64)
    unknown = graph.node("Equal", numbers, graph.constant(0, np.int64))
    shifted = graph.node("Add", numbers, graph.constant(1, np.int64))
    unknown_id = graph.constant(tokenizer.unknown_id, np.int64)
    ids = graph.node("Where", unknown, unknown_id, shifted)
    return ids, one_row_less(graph, splits)
