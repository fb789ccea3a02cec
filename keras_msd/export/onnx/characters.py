"""BERT's preparation of text, character by character, as ONNX operators."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from keras_msd.export.onnx.graph import Graph
from keras_msd.export.onnx.strings import join, replace, split, strings
from keras_msd.tokenizers.characters import character_rules
from keras_msd.tokenizers.wordpiece import WordPieceTokenizer

UNICODE = 0x110000
SURROGATES = range(0xD800, 0xE000)
ROW_END = "\n"  # no text has it after the preparation: every blank has become a space
ML = "ai.onnx.ml"


def prepared(graph: Graph, tokenizer: WordPieceTokenizer, text: str) -> str:
    """Return texts whose words stand between spaces.

    Characters that vanish, become a blank or get blanks around them are classes of
    regular expressions; those that become others are looked up one by one.

    Args:
        graph: Gets the nodes.
        tokenizer: Says what becomes of each character.
        text: Strings `(n,)` without NUL; n is at least 1.

    Raises:
        InputError: The tokenizer prepares text in another way than BERT.
    """
    around, instead = _changes(tokenizer)
    for by in ("", " "):
        if codes := instead.pop(by, None):
            text = replace(graph, text, f"[{_ranges(codes)}]", by)
    for (before, after), codes in sorted(around.items()):
        text = replace(graph, text, f"([{_ranges(codes)}])", before + r"\1" + after)
    single = {chr(code): by for by, codes in instead.items() for code in codes}
    return _exchanged(graph, text, single) if single else text


def _exchanged(graph: Graph, text: str, by: dict[str, str]) -> str:
    """Put `by[character]` in the place of characters; rows stay rows."""
    joined = join(graph, text, ROW_END, axis=0)
    characters, _ = split(graph, joined, "(?s)(.)", keep="(?s).")
    number = graph.node(
        "LabelEncoder",
        characters,
        domain=ML,
        keys_strings=list(by),
        values_int64s=list(range(1, len(by) + 1)),
        default_int64=0,
    )
    other = graph.node("Gather", strings(graph, "", *by.values()), number)
    same = graph.node("Equal", number, graph.constant(0, np.int64))
    changed = graph.node("Where", same, characters, other)
    joined = join(graph, changed, "", axis=0)
    rows = graph.nodes("StringSplit", joined, outputs=2, delimiter=ROW_END)[0]
    return graph.node("Reshape", rows, graph.numbers(-1))


def _changes(
    tokenizer: WordPieceTokenizer,
) -> tuple[dict[tuple[str, str], list[int]], dict[str, list[int]]]:
    """Return characters that get something around them, and that are replaced."""
    around: dict[tuple[str, str], list[int]] = defaultdict(list)
    instead: dict[str, list[int]] = defaultdict(list)
    rules = character_rules(tokenizer.backend)
    ends = [rule.start for rule in rules[1:]] + [UNICODE]
    for rule, end in zip(rules, ends, strict=True):
        codes = [
            code for code in range(max(rule.start, 1), end) if code not in SURROGATES
        ]
        if not rule.keep:
            instead[rule.before + rule.after] += codes
        elif rule.before or rule.after:
            around[rule.before, rule.after] += codes
    return dict(around), dict(instead)


def _ranges(codes: Iterable[int]) -> str:
    r"""Return the inside of an RE2 class, such as `\x{41}-\x{5a}`."""
    spans: list[list[int]] = []
    for code in sorted(codes):
        if spans and code == spans[-1][1] + 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in spans)
