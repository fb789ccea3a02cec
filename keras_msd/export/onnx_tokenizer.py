"""From strings to token ids and mask, by operators inside an ONNX graph.

And whether they give the ids of the tokenizer that the graph was made from.
"""

from typing import Any

import numpy as np

from keras_msd.export import proof
from keras_msd.export.onnx_files import new_session
from keras_msd.export.onnx_network import INT32, INT64, LAST, STRING, Graph
from keras_msd.export.proof import LONGEST
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer


def token_ids(
    graph: Graph, tokenizer: SentencePieceTokenizer, max_length: int, text: str
) -> tuple[str, str]:
    """Append a SentencePiece unigram tokenizer to a graph.

    The operator is an older release of the SentencePiece library. Where two splits of a
    word are equally likely ("00" + "0" and "0" + "00"), it may take the other one. It
    takes a NUL character for the end of the text.

    Args:
        graph: Gets the nodes.
        tokenizer: What is appended.
        max_length: Most ids per sentence, start and end included; a longer sentence
            loses ids before its end token, which stays.
        text: Strings `(n,)` in UTF-8.

    Returns:
        `token_ids` and `padding_mask` (1 on real tokens), int32 `(n, length)`.
    """
    node = graph.node
    # The operator fails on no row: there is one more until its ids are known.
    text = node("Concat", text, graph.constant(["a"]), axis=0)
    flag = graph.constant([False])
    # The operator has a switch for XLM-RoBERTa's ids. It shifts the ids of a batch's
    # first row once for every row, so the shift is made here.
    ids, splits = graph.nodes(
        "SentencepieceTokenizer",
        text,
        (0,),
        graph.constant([0], np.float32),
        *(flag, flag, flag),
        outputs=2,
        domain="ai.onnx.contrib",
        model=tokenizer.definition,
    )
    graph.declare(ids, INT32)
    graph.declare(splits, INT64)
    ids = node("Cast", ids, to=INT64)
    unknown = node("Equal", ids, 0)
    shifted = node("Add", ids, 1)
    flat = node("Where", unknown, tokenizer.unknown_id, shifted)
    # From here on `flat` holds the ids of all rows: `flat[splits[i] : splits[i + 1]]`.
    splits = graph.part(splits, 0, -1)
    starts = graph.part(splits, 0, -1)
    lengths = node("Sub", graph.part(splits, 1, LAST), starts)
    kept = node("Min", lengths, max_length - 2)
    longest = node("ReduceMax", node("Concat", kept, (0,), axis=0), (0,), keepdims=0)
    column = node("Range", 0, node("Add", longest, 2), 1)
    end = node("Add", node("Unsqueeze", kept, (1,)), 1)

    first = node("Unsqueeze", node("Sub", starts, 1), (1,))
    places = node("Add", first, column)
    # Columns beyond a row's end are replaced below; they must only exist.
    with_spare = node("Concat", flat, (tokenizer.pad_id,), axis=0)
    last = node("Squeeze", node("Shape", flat), (0,))
    places = node("Max", node("Min", places, last), 0)
    ids = node("Gather", with_spare, places)

    ids = node("Where", node("Equal", column, end), tokenizer.end_id, ids)
    real = node("LessOrEqual", column, end)
    ids = node("Where", real, ids, tokenizer.pad_id)
    ids = node("Where", node("Equal", column, 0), tokenizer.start_id, ids)
    return node("Cast", ids, to=INT32), node("Cast", real, to=INT32)


def check_ids(tokenizer: SentencePieceTokenizer) -> dict[str, int]:
    """Compare both tokenizers, see `proof.check_ids`."""
    session = _session(tokenizer)

    def encode(texts: list[str]) -> list[list[int]]:
        rows, masks = session.run(None, {"text": np.array(texts, object)})
        return [row[mask == 1].tolist() for row, mask in zip(rows, masks, strict=True)]

    return proof.check_ids(tokenizer, encode, "an ONNX file")


def _session(tokenizer: SentencePieceTokenizer) -> Any:
    """Return the tokenizer's part of the graph, in onnxruntime."""
    graph = Graph()
    ids, mask = token_ids(graph, tokenizer, LONGEST, "text")
    shape = INT32, ["batch", "length"]
    model = graph.model(
        {"text": (STRING, ["batch"])},
        {"token_ids": (ids, *shape), "padding_mask": (mask, *shape)},
    )
    return new_session(model.SerializeToString(), extensions=True)
