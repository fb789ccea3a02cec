"""From strings to token ids and mask, by operators inside an ONNX graph.

And whether they give the ids of the tokenizer that the graph was made from.
"""

import json
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.export.formats import NO_FORMAT
from keras_msd.export.onnx.files import new_session
from keras_msd.export.onnx.graph import INT32, INT64, LAST, STRING, Graph
from keras_msd.export.proof import proof_sentences
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, parse
from keras_msd.tokenizers.tokenizer_json import WordPieceTokenizer, character_rules

CONTRIB, ML = "ai.onnx.contrib", "ai.onnx.ml"
UNICODE = 0x110000
SURROGATES = range(0xD800, 0xE000)
ROW_END = "\n"  # no text has it after the preparation: every blank has become a space
NUL = "\0"
# Texts with a NUL character, and what it may count as: nothing, a blank, unknown.
NUL_TEXTS = ("a\0b", "\0", "a \0\0 b\0", "\0a")
NUL_TWINS = ("", " ", "\ue000", "\uffff", "\U0010ffff")

LEFT_OUT = ("Cn", "Co", "Cs")  # not assigned, private, surrogates
TOGETHER = 16  # characters, or pieces, in a text
LONGEST = 4096
BATCH = 512
# Two sums of the same scores in another order differ by less, relatively.
SAME = 1e-5
TRICKY = (
    "nul\0in\0 \0the text\0",
    "</s> <s> <pad> <unk> <mask> [SEP] [CLS] [PAD] [MASK] [UNK]",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \u2764\ufe0f",
    "e\u0301 \u0301a n\u0303 \u1100\u1161\u11a8 \ufb01\u0301",
    "line\nbreak\r\ntab\tnext\x85line\u2028par\u00a0thin\u2009",
    "a" * 100 + " " + "a" * 101,
    "word" * 300,
)


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
    if feature := tokenizer.unusual_frame():
        raise InputError(
            "A tokenizer in an ONNX file must put one token before a text and one "
            f"after it, and cut at the right. Received: {feature}. {NO_FORMAT}"
        )
    # Some operators fail on no row: there is one more until its ids are known.
    text = graph.node("Concat", text, graph.strings("a"), axis=0)
    if isinstance(tokenizer, SentencePieceTokenizer):
        flat, splits = _unigram_ids(graph, tokenizer, text)
    elif isinstance(tokenizer, WordPieceTokenizer):
        flat, splits = _wordpiece_ids(graph, tokenizer, text)
    else:
        raise InputError(
            "A tokenizer in an ONNX file must be of kind unigram or wordpiece. "
            f"Received: {tokenizer.kind}. {NO_FORMAT}"
        )
    return _padded(graph, tokenizer, max_length, flat, graph.part(splits, 0, -1))


def _padded(
    graph: Graph, tokenizer: Tokenizer, max_length: int, flat: str, splits: str
) -> tuple[str, str]:
    """Return a rectangle of ids with start and end, and its mask.

    `flat` int64 holds the ids of all rows; those of row i are `flat[splits[i] :
    splits[i + 1]]`.
    """
    node, number, numbers = graph.node, graph.number, graph.numbers
    starts = graph.part(splits, 0, -1)
    lengths = node("Sub", graph.part(splits, 1, LAST), starts)
    kept = node("Min", lengths, number(max_length - 2))
    longest = node("Concat", kept, numbers(0), axis=0)
    longest = node("ReduceMax", longest, numbers(0), keepdims=0)
    width = node("Add", longest, number(2))
    column = node("Range", number(0), width, number(1))
    end = node("Add", node("Unsqueeze", kept, numbers(1)), number(1))

    first = node("Unsqueeze", node("Sub", starts, number(1)), numbers(1))
    places = node("Add", first, column)
    # Columns beyond a row's end are replaced below; they must only exist.
    with_spare = node("Concat", flat, numbers(tokenizer.pad_id), axis=0)
    last = node("Squeeze", node("Shape", flat), numbers(0))
    places = node("Max", node("Min", places, last), number(0))
    ids = node("Gather", with_spare, places)

    is_end = node("Equal", column, end)
    ids = node("Where", is_end, number(tokenizer.end_id), ids)
    real = node("LessOrEqual", column, end)
    ids = node("Where", real, ids, number(tokenizer.pad_id))
    is_start = node("Equal", column, number(0))
    ids = node("Where", is_start, number(tokenizer.start_id), ids)
    return node("Cast", ids, to=INT32), node("Cast", real, to=INT32)


def _unigram_ids(
    graph: Graph, tokenizer: SentencePieceTokenizer, text: str
) -> tuple[str, str]:
    """Append SentencePiece; `text` is strings `(n,)`, n at least 1.

    The operator is an older release of the SentencePiece library. Where two splits of a
    word are equally likely ("00" + "0" and "0" + "00"), it may take the other one.

    Returns:
        The ids of all rows, int64, without start and end, and where each row starts,
        int64 `(n + 1,)`.
    """
    text = without_nul(graph, text, tokenizer.encode_plain)
    flag = graph.constant([False])
    # The operator has a switch for XLM-RoBERTa's ids. It shifts the ids of a batch's
    # first row once for every row, so the shift is made here.
    ids, splits = _extension(
        graph,
        "SentencepieceTokenizer",
        text,
        graph.numbers(0),
        graph.constant([0], np.float32),
        *(flag, flag, flag),
        gives=[INT32, INT64],
        model=tokenizer.definition,
    )
    ids = graph.node("Cast", ids, to=INT64)
    unknown = graph.node("Equal", ids, graph.number(0))
    shifted = graph.node("Add", ids, graph.number(1))
    unknown_id = graph.number(tokenizer.unknown_id)
    return graph.node("Where", unknown, unknown_id, shifted), splits


def _wordpiece_ids(
    graph: Graph, tokenizer: WordPieceTokenizer, text: str
) -> tuple[str, str]:
    """Append WordPiece; `text` is strings `(n,)`, n at least 1.

    Returns:
        The ids of all rows, int64, without start and end, and where each row starts,
        int64 `(n + 1,)`.

    Raises:
        InputError: The tokenizer has added tokens, or prepares text in another way
            than BERT.
    """
    if added := tokenizer.added_tokens():
        raise InputError(
            "A WordPiece tokenizer in an ONNX file must have no added tokens besides "
            f"special ones. Received: {added}. {NO_FORMAT}"
        )
    text = without_nul(graph, text, tokenizer.encode_plain)
    text = _prepared(graph, tokenizer, text)
    words, rows = _split(graph, text, "( +)", keep="")
    pieces, model = tokenizer.pieces(), tokenizer.backend.model
    table = {piece: number for number, piece in enumerate(pieces)}
    tokens, ends, _, _ = _extension(
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
    ids = _looked_up(graph, tokens, table, tokenizer.unknown_id)
    ids, ends = _one_id_for_unknown(graph, tokenizer.unknown_id, ids, ends)
    return ids, graph.node("Gather", ends, rows)


def _one_id_for_unknown(
    graph: Graph, unknown_id: int, ids: str, ends: str
) -> tuple[str, str]:
    """Leave one id of a word that cannot be spelled; `ends` are those of the words.

    The operator gives the pieces before the place where it failed, then the unknown.
    """
    node, numbers = graph.node, graph.numbers
    starts = graph.part(ends, 0, -1)
    lasts = node("Sub", graph.part(ends, 1, LAST), numbers(1))
    failed = node("Equal", node("Gather", ids, lasts), numbers(unknown_id))
    nothing = node("Expand", numbers(0), node("Shape", ids))

    def marked(places: str) -> str:
        ones = node("Expand", numbers(1), node("Shape", places))
        return node("ScatterElements", nothing, places, ones, axis=0)

    axis = graph.number(0)
    word = node("Sub", node("CumSum", marked(starts), axis), numbers(1))
    spelled = node("Not", node("Gather", failed, word))
    last = node("Equal", marked(lasts), numbers(1))
    kept = node("Or", spelled, last)
    counts = node("CumSum", node("Cast", kept, to=INT64), axis)
    counts = node("Concat", numbers(0), counts, axis=0)
    return node("Compress", ids, kept, axis=0), node("Gather", counts, ends)


def without_nul(
    graph: Graph, text: str, encode: Callable[[list[str]], list[list[int]]]
) -> str:
    """Replace NUL characters by something the tokenizer treats alike.

    The operators of onnxruntime-extensions take a NUL for the end of the text.

    Args:
        graph: Gets the nodes.
        text: Strings `(n,)`; n is at least 1.
        encode: The tokenizer, which says what a NUL counts as.

    Raises:
        InputError: The tokenizer treats it like none of `NUL_TWINS`.
    """
    expected = encode(list(NUL_TEXTS))
    for twin in NUL_TWINS:
        if encode([sample.replace(NUL, twin) for sample in NUL_TEXTS]) == expected:
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
    return _joined(graph, parts, "", axis=1)


def _after_first(graph: Graph, parts: str, counts: str, twin: str) -> str:
    """Put `twin` before every part of a row but its first; `parts` is `(n, most)`."""
    most = graph.node("Shape", parts, start=1, end=2)
    most = graph.node("Squeeze", most, graph.numbers(0))
    column = graph.node("Range", graph.number(0), most, graph.number(1))
    counts = graph.node("Unsqueeze", counts, graph.numbers(1))
    inside = graph.node("Less", column, counts)
    later = graph.node("GreaterOrEqual", column, graph.number(1))
    both = graph.node("And", inside, later)
    before = graph.node("Where", both, graph.strings(twin), graph.strings(""))
    return graph.node("StringConcat", before, parts)


def _prepared(graph: Graph, tokenizer: WordPieceTokenizer, text: str) -> str:
    """Return texts whose words stand between spaces, as BERT prepares them.

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
            text = _replaced(graph, text, f"[{_ranges(codes)}]", by)
    for (before, after), codes in sorted(around.items()):
        text = _replaced(graph, text, f"([{_ranges(codes)}])", rf"{before}\1{after}")
    single = {chr(code): by for by, codes in instead.items() for code in codes}
    return _exchanged(graph, text, single) if single else text


def _exchanged(graph: Graph, text: str, by: dict[str, str]) -> str:
    """Put `by[character]` in the place of characters; rows stay rows."""
    joined = _joined(graph, text, ROW_END, axis=0)
    characters, _ = _split(graph, joined, "(?s)(.)", keep="(?s).")
    numbers = {character: number for number, character in enumerate(by, start=1)}
    number = _looked_up(graph, characters, numbers, 0)
    other = graph.node("Gather", graph.strings("", *by.values()), number)
    same = graph.node("Equal", number, graph.number(0))
    changed = graph.node("Where", same, characters, other)
    joined = _joined(graph, changed, "", axis=0)
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
        span = range(max(rule.start, 1), end)
        codes = [code for code in span if code not in SURROGATES]
        if not rule.keep:
            instead[rule.before + rule.after] += codes
        elif rule.before or rule.after:
            around[rule.before, rule.after] += codes
    return around, instead


def _ranges(codes: Iterable[int]) -> str:
    r"""Return the inside of an RE2 class, such as `\x{41}-\x{5a}`."""
    spans: list[list[int]] = []
    for code in sorted(codes):
        if spans and code == spans[-1][1] + 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in spans)


def _extension(
    graph: Graph, operator: str, *inputs: str, gives: Sequence[int], **fields: Any
) -> list[str]:
    """Append an operator of onnxruntime-extensions; `gives` are its element types."""
    count = len(gives)
    outputs = graph.nodes(operator, *inputs, outputs=count, domain=CONTRIB, **fields)
    return [graph.declare(*pair) for pair in zip(outputs, gives, strict=True)]


def _looked_up(graph: Graph, keys: str, numbers: dict[str, int], default: int) -> str:
    """Return the number of each string, `default` for others: int64."""
    return graph.node(
        "LabelEncoder",
        keys,
        domain=ML,
        keys_strings=list(numbers),
        values_int64s=list(numbers.values()),
        default_int64=default,
    )


def _joined(graph: Graph, text: str, by: str, axis: int) -> str:
    """Join strings along an axis."""
    how = graph.strings(by), graph.numbers(axis)
    return _extension(graph, "StringJoin", text, *how, gives=[STRING])[0]


def _replaced(graph: Graph, text: str, pattern: str, by: str) -> str:
    """Replace every match of an RE2 pattern in strings `(n,)`."""
    how = graph.strings(pattern), graph.strings(by)
    return _extension(graph, "StringRegexReplace", text, *how, gives=[STRING])[0]


def _split(graph: Graph, text: str, pattern: str, keep: str) -> tuple[str, str]:
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
    how = graph.strings(pattern), graph.strings(keep)
    gives = [STRING, INT64, INT64, INT64]
    parts = _extension(graph, "StringRegexSplitWithOffsets", text, *how, gives=gives)
    return parts[0], parts[3]


def check_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Compare both on the proof's sentences, every piece and every Unicode character.

    Args:
        tokenizer: A SentencePiece unigram or a WordPiece tokenizer.

    Returns:
        `{"texts", "equally_likely"}`: how many were compared, and how many of them
        were split in another, equally likely way.

    Raises:
        InputError: The ids of a text differ; the message lists the characters.
    """
    run = _Front(tokenizer)
    texts, ties = list(check_texts(tokenizer)), 0
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        for text, expected, ids in zip(
            part, tokenizer.encode(part, LONGEST), run(part), strict=True
        ):
            if ids != expected:
                if not _equally_likely(tokenizer, expected, ids):
                    raise _difference(tokenizer, run, text)
                ties += 1
    return {"texts": len(texts), "equally_likely": ties}


class _Front:
    """The tokenizer's part of the graph, in onnxruntime."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        graph = Graph()
        names = ("token_ids", "padding_mask")
        values = token_ids(graph, tokenizer, LONGEST, "text")
        shape = INT32, ["batch", "length"]
        model = graph.model(
            inputs={"text": (STRING, ["batch"])},
            outputs={
                name: (value, *shape) for name, value in zip(names, values, strict=True)
            },
        )
        self.session = new_session(model.SerializeToString(), extensions=True)

    def __call__(self, texts: list[str]) -> list[list[int]]:
        ids, mask = self.session.run(None, {"text": np.array(texts, object)})
        return [row[: kept.sum()].tolist() for row, kept in zip(ids, mask, strict=True)]


def check_texts(tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the proof's sentences, tricky ones, every piece and every character."""
    yield from proof_sentences()
    yield from TRICKY
    characters = [
        character
        for character in map(chr, range(UNICODE))
        if unicodedata.category(character) not in LEFT_OUT
    ]
    # Between letters and after a blank: combining marks see only what is beside them.
    for parts, form in ((tokenizer.pieces(), "{}"), (characters, "x{}y")):
        for start in range(0, len(parts), TOGETHER):
            yield " ".join(map(form.format, parts[start : start + TOGETHER]))


def _equally_likely(tokenizer: Tokenizer, expected: list[int], ids: list[int]) -> bool:
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return False
    if tokenizer.unknown_id in expected + ids:
        return sorted(expected) == sorted(ids)
    scores = [0.0, *(piece.score for piece in parse(tokenizer.definition).pieces)]
    sums = [sum(scores[number] for number in row[1:-1]) for row in (expected, ids)]
    return abs(sums[0] - sums[1]) <= SAME * abs(sums[0])


def _difference(tokenizer: Tokenizer, run: _Front, text: str) -> InputError:
    characters = sorted(set(text))
    single = [f"x{character}y" for character in characters]
    rows = zip(characters, tokenizer.encode(single), run(single), strict=True)
    wrong = [f"U+{ord(char):04X}" for char, expected, ids in rows if ids != expected]
    where = f"characters {', '.join(wrong)}" if wrong else f"the text {text!r:.80}"
    return InputError(
        "A tokenizer in an ONNX file must give the ids of the encoder's own. Received: "
        f"other ids for {where}. Use the format `onnx`, which takes token ids."
    )
