"""String operators of onnxruntime-extensions, and what they cannot do by themselves."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.export.onnx.graph import INT64, STRING, Graph

CONTRIB = "ai.onnx.contrib"
NUL = "\0"
# Texts with a NUL character, and what it may count as: nothing, a blank, unknown.
NUL_TEXTS = ("a\0b", "\0", "a \0\0 b\0", "\0a")
NUL_TWINS = ("", " ", "\ue000", "\uffff", "\U0010ffff")


def strings(graph: Graph, *values: str) -> str:
    """Return a constant of strings, `(len(values),)`."""
    return graph.constant(np.array(values))


def extension(
    graph: Graph, operator: str, *inputs: str, gives: Sequence[int], **fields: Any
) -> list[str]:
    """Append an operator of onnxruntime-extensions; `gives` are its element types."""
    outputs = graph.nodes(
        operator, *inputs, outputs=len(gives), domain=CONTRIB, **fields
    )
    return [graph.declare(*pair) for pair in zip(outputs, gives, strict=True)]


def join(graph: Graph, text: str, by: str, axis: int) -> str:
    """Join strings along an axis."""
    ends = strings(graph, by), graph.numbers(axis)
    return extension(graph, "StringJoin", text, *ends, gives=[STRING])[0]


def without_nul(
    graph: Graph, text: str, encode: Callable[[list[str]], list[list[int]]]
) -> str:
    """Put something that counts as the same in the place of every NUL character.

    The operators of onnxruntime-extensions take a NUL for the end of the text.

    Args:
        graph: Gets the nodes.
        text: Strings `(n,)`; n is at least 1.
        encode: The tokenizer, which says what a NUL counts as.

    Raises:
        InputError: The tokenizer treats it like none of `NUL_TWINS`.
    """
    wanted = encode(list(NUL_TEXTS))
    for twin in NUL_TWINS:
        if encode([one.replace(NUL, twin) for one in NUL_TEXTS]) == wanted:
            break
    else:
        raise InputError(
            "A tokenizer in an ONNX file must treat the NUL character as nothing, a "
            "blank or something unknown, and this one does not. Tokenize outside and "
            "feed a file that takes `token_ids` and `padding_mask`."
        )
    parts, counts = graph.nodes("StringSplit", text, outputs=2, delimiter=NUL)
    if twin:
        parts = _after_first(graph, parts, counts, twin)
    return join(graph, parts, "", axis=1)


def _after_first(graph: Graph, parts: str, counts: str, twin: str) -> str:
    """Put `twin` before every part of a row but its first; `parts` is `(n, most)`."""
    one = graph.constant(1, np.int64)
    most = graph.node("Shape", parts, start=1, end=2)
    most = graph.node("Squeeze", most, graph.numbers(0))
    column = graph.node("Range", graph.constant(0, np.int64), most, one)
    inside = graph.node(
        "Less", column, graph.node("Unsqueeze", counts, graph.numbers(1))
    )
    later = graph.node("GreaterOrEqual", column, one)
    both = graph.node("And", inside, later)
    before = graph.node("Where", both, strings(graph, twin), strings(graph, ""))
    return graph.node("StringConcat", before, parts)


def replace(graph: Graph, text: str, pattern: str, by: str) -> str:
    """Replace every match of an RE2 pattern in strings `(n,)`."""
    both = strings(graph, pattern), strings(graph, by)
    return extension(graph, "StringRegexReplace", text, *both, gives=[STRING])[0]


def split(graph: Graph, text: str, pattern: str, keep: str) -> tuple[str, str]:
    """Split strings `(n,)` where a group of an RE2 pattern matches.

    Args:
        graph: Gets the nodes.
        text: The strings.
        pattern: Holds one group.
        keep: Which matches are parts of their own; the others vanish.

    Returns:
        The parts of all rows, none of them empty, and where each row's start, int64
        `(n + 1,)`.
    """
    both = strings(graph, pattern), strings(graph, keep)
    gives = [STRING, INT64, INT64, INT64]
    parts = extension(graph, "StringRegexSplitWithOffsets", text, *both, gives=gives)
    return parts[0], parts[3]


def one_more_row(graph: Graph, text: str) -> str:
    """Append a row: some operators fail on none. `one_row_less` cuts it off again."""
    return graph.node("Concat", text, strings(graph, "a"), axis=0)


def one_row_less(graph: Graph, splits: str) -> str:
    """Drop the last row's end from the ends of all rows."""
    return graph.part(splits, 0, -1)
