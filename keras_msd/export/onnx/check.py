"""Whether a tokenizer inside ONNX gives the ids of the tokenizer it was made from."""

import unicodedata
from collections.abc import Iterator

import numpy as np

from keras_msd.checks import InputError, require
from keras_msd.export.onnx.extensions import load_extensions
from keras_msd.export.onnx.front import token_ids
from keras_msd.export.onnx.graph import INT32, STRING, Graph
from keras_msd.export.proof_sentences import proof_sentences
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.rebuild import parse
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer

UNICODE = 0x110000
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
    texts, ties = list(_texts(tokenizer)), 0
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        wanted, found = tokenizer.encode(part, LONGEST), run(part)
        for text, one, other in zip(part, wanted, found, strict=True):
            if one != other:
                if not _equally_likely(tokenizer, one, other):
                    raise _difference(tokenizer, run, text)
                ties += 1
    return {"texts": len(texts), "equally_likely": ties}


class _Front:
    """The tokenizer's part of the graph, in onnxruntime."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        runtime = require("onnxruntime", "onnx", "The ONNX format")
        graph = Graph()
        names = ("token_ids", "padding_mask")
        values = token_ids(graph, tokenizer, LONGEST, "text")
        model = graph.model(
            inputs={"text": (STRING, ["batch"])},
            outputs={
                name: (value, INT32, ["batch", "length"])
                for name, value in zip(names, values, strict=True)
            },
        )
        options = runtime.SessionOptions()
        options.register_custom_ops_library(load_extensions().get_library_path())
        self.session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, texts: list[str]) -> list[list[int]]:
        ids, mask = self.session.run(None, {"text": np.array(texts, object)})
        return [row[: kept.sum()].tolist() for row, kept in zip(ids, mask, strict=True)]


def _texts(tokenizer: Tokenizer) -> Iterator[str]:
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


def _equally_likely(tokenizer: Tokenizer, one: list[int], other: list[int]) -> bool:
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return False
    if tokenizer.unknown_id in one + other:
        return sorted(one) == sorted(other)
    scores = [0.0, *(piece.score for piece in parse(tokenizer.definition).pieces)]
    sums = [sum(scores[number] for number in row[1:-1]) for row in (one, other)]
    return abs(sums[0] - sums[1]) <= SAME * abs(sums[0])


def _difference(tokenizer: Tokenizer, run: _Front, text: str) -> InputError:
    parts = sorted(set(text))
    single = [f"x{part}y" for part in parts]
    pairs = zip(parts, tokenizer.encode(single), run(single), strict=True)
    wrong = [f"U+{ord(part):04X}" for part, one, other in pairs if one != other]
    where = f"characters {', '.join(wrong)}" if wrong else f"the text {text!r:.80}"
    return InputError(
        "A tokenizer in an ONNX file must give the ids of the encoder's own. Received: "
        f"other ids for {where}. Use the format `onnx`, which takes token ids."
    )
