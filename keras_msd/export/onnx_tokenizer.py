"""From strings to token ids and mask, by operators inside an ONNX graph.

And whether they give the ids of the tokenizer that the graph was made from.
"""

from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError
from keras_msd.export.onnx_files import new_session
from keras_msd.export.onnx_network import INT32, INT64, LAST, STRING, Graph
from keras_msd.export.proof import check_texts
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, parse

LONGEST = 4096
BATCH = 512
# Two sums of the same scores in another order differ by less, relatively.
SAME = 1e-5


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
    """Compare both on the proof's sentences, every piece and every Unicode character.

    Returns:
        `{"texts", "equally_likely"}`: how many were compared, and how many of them
        were split in another, equally likely way.

    Raises:
        InputError: The ids of a text differ.
    """
    session = _session(tokenizer)
    texts, ties = list(check_texts(tokenizer)), 0
    for part in in_chunks(texts, BATCH):
        rows, masks = session.run(None, {"text": np.array(part, object)})
        expected = tokenizer.encode(part, LONGEST)
        for text, wanted, row, mask in zip(part, expected, rows, masks, strict=True):
            ids = row[: mask.sum()].tolist()
            if ids == wanted:
                continue
            if not _equally_likely(tokenizer, wanted, ids):
                raise InputError(
                    "A tokenizer in an ONNX file must give the ids of the encoder's "
                    f"own. Received: other ids for {text!r:.80}. Use the format "
                    "`onnx`, which takes token ids."
                )
            ties += 1
    return {"texts": len(texts), "equally_likely": ties}


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


def _equally_likely(
    tokenizer: SentencePieceTokenizer, expected: list[int], ids: list[int]
) -> bool:
    if tokenizer.unknown_id in expected + ids:
        return sorted(expected) == sorted(ids)
    scores = [0.0, *(piece.score for piece in parse(tokenizer.definition).pieces)]
    sums = [sum(scores[number] for number in row[1:-1]) for row in (expected, ids)]
    return abs(sums[0] - sums[1]) <= SAME * abs(sums[0])
