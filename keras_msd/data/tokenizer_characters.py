"""What BERT's text preparation does to each character, as a table."""

from collections.abc import Iterator
from typing import NamedTuple

from tokenizers import Tokenizer as Backend

from keras_msd.checks import InputError

_LAST = 0x110000
_SURROGATES = range(0xD800, 0xE000)
_BLOCK = 4096


class Rule(NamedTuple):
    """What becomes of the characters from `start` to the next rule's start.

    Each is replaced by `before`, itself if `keep`, and `after`. A blank in the result
    separates words.
    """

    start: int
    before: str
    keep: bool
    after: str


def character_rules(backend: Backend) -> list[Rule]:
    """Measure how a BERT tokenizer prepares text, over all of Unicode.

    Cleaning, spacing of Chinese characters, removal of accents, lower-casing and the
    split at punctuation each look at one character at a time, so a table over all
    characters is the whole preparation. It is measured, not written down, because the
    library's Unicode tables are its own: with those of another library, hundreds of
    characters come out differently.

    Args:
        backend: A tokenizer with BERT's normaliser and pre-tokeniser.

    Raises:
        InputError: The tokenizer prepares text in another way.
    """
    parts = (type(backend.normalizer).__name__, type(backend.pre_tokenizer).__name__)
    if parts != ("BertNormalizer", "BertPreTokenizer"):
        raise InputError(
            "A WordPiece tokenizer in a graph needs BertNormalizer and "
            f"BertPreTokenizer. Received: {parts[0]} and {parts[1]}. Run it in Python."
        )
    rules: list[Rule] = []
    for code, result in _results(backend):
        before, character, after = result.partition(chr(code))
        rule = Rule(code, before, bool(character), after)
        if not rules or rule[1:] != rules[-1][1:]:
            rules.append(rule)
    return rules


def _results(backend: Backend) -> Iterator[tuple[int, str]]:
    for first in range(0, _LAST, _BLOCK):
        codes = [c for c in range(first, first + _BLOCK) if c not in _SURROGATES]
        # Between two letters no character can combine with its neighbours' results.
        text = " ".join(f"x{chr(code)}y" for code in codes)
        words = backend.pre_tokenizer.pre_tokenize_str(
            backend.normalizer.normalize_str(text)
        )
        joined = " ".join(word for word, _ in words)
        yield from zip(codes, joined[1:-1].split("y x") if codes else [], strict=True)
