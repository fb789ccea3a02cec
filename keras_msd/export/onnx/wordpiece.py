"""WordPiece as an operator of onnxruntime-extensions."""

import json

import numpy as np

from keras_msd.checks import InputError
from keras_msd.export.formats import NO_FORMAT
from keras_msd.export.onnx.characters import ML, prepared
from keras_msd.export.onnx.graph import INT64, LAST, STRING, Graph
from keras_msd.export.onnx.strings import (
    extension,
    one_more_row,
    one_row_less,
    split,
    without_nul,
)
from keras_msd.tokenizers.wordpiece import WordPieceTokenizer


def wordpiece_ids(
    graph: Graph, tokenizer: WordPieceTokenizer, text: str
) -> tuple[str, str]:
    """Append the tokenizer; `text` is strings `(n,)`.

    Returns:
        The ids of all rows, int64, without start and end, and where each row starts,
        int64 `(n + 1,)`.

    Raises:
        InputError: The tokenizer has added tokens, or prepares text in another way
            than BERT.
    """
    added = tokenizer.backend.get_added_tokens_decoder().values()
    names = [token.content for token in added if not token.special]
    if names:
        raise InputError(
            "A WordPiece tokenizer in an ONNX file must have no added tokens besides "
            f"special ones. Received: {', '.join(names[:5])}. {NO_FORMAT}"
        )
    text = without_nul(graph, one_more_row(graph, text), tokenizer.encode_plain)
    text = prepared(graph, tokenizer, text)
    words, rows = split(graph, text, "( +)", keep="")
    pieces, model = tokenizer.pieces(), tokenizer.backend.model
    table = {piece: number for number, piece in enumerate(pieces)}
    tokens, ends, _, _ = extension(
        graph,
        "WordpieceTokenizer",
        words,
        graph.numbers(),
        gives=[STRING, INT64, INT64, INT64],
        vocab=json.dumps(table, ensure_ascii=False),
        suffix_indicator=model.continuing_subword_prefix,
        unknown_token=pieces[tokenizer.unknown_id],
        max_input_chars_per_word=model.max_input_chars_per_word,
    )
    ids = graph.node(
        "LabelEncoder",
        tokens,
        domain=ML,
        keys_strings=pieces,
        values_int64s=list(range(len(pieces))),
        default_int64=tokenizer.unknown_id,
    )
    ids, ends = _one_for_unknown(graph, tokenizer.unknown_id, ids, ends)
    return ids, one_row_less(graph, graph.node("Gather", ends, rows))


def _one_for_unknown(
    graph: Graph, unknown_id: int, ids: str, ends: str
) -> tuple[str, str]:
    """Leave one id of a word that cannot be spelled; `ends` are those of the words.

    The operator gives the pieces before the place where it failed, then the unknown.
    """
    starts = graph.part(ends, 0, -1)
    lasts = graph.node("Sub", graph.part(ends, 1, LAST), graph.numbers(1))
    failed = graph.node(
        "Equal", graph.node("Gather", ids, lasts), graph.numbers(unknown_id)
    )
    nothing = graph.node("Expand", graph.numbers(0), graph.node("Shape", ids))

    def marked(places: str) -> str:
        ones = graph.node("Expand", graph.numbers(1), graph.node("Shape", places))
        return graph.node("ScatterElements", nothing, places, ones, axis=0)

    axis = graph.constant(0, np.int64)
    word = graph.node("CumSum", marked(starts), axis)
    word = graph.node("Sub", word, graph.numbers(1))
    spelled = graph.node("Not", graph.node("Gather", failed, word))
    last = graph.node("Equal", marked(lasts), graph.numbers(1))
    kept = graph.node("Or", spelled, last)
    counts = graph.node("CumSum", graph.node("Cast", kept, to=INT64), axis)
    counts = graph.node("Concat", graph.numbers(0), counts, axis=0)
    ids = graph.node("Compress", ids, kept, axis=0)
    return ids, graph.node("Gather", counts, ends)
