"""What BERT's text preparation does to each character, as a table."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tokenizers import Tokenizer as Backend
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

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
    Unicode tables of the `tokenizers` library are its own: those of another library
    treat some characters differently. One thing is not in the table: of two adjacent
    marks from some 80 rare ones (Glagolitic, Adlam, Balinese, ...), the library may
    swap the order, as canonical decomposition does.

    Args:
        backend: A tokenizer with BERT's normaliser and pre-tokeniser.

    Raises:
        InputError: The tokenizer prepares text in another way.
    """
    normalizer, splitter = backend.normalizer, backend.pre_tokenizer
    if not (
        isinstance(normalizer, BertNormalizer)
        and isinstance(splitter, BertPreTokenizer)
    ):
        raise InputError(
            "A WordPiece tokenizer in a graph needs BertNormalizer and "
            f"BertPreTokenizer. Received: {type(normalizer).__name__} and "
            f"{type(splitter).__name__}. Run it in Python."
        )
    return _measured(
        normalizer.clean_text,
        normalizer.handle_chinese_chars,
        normalizer.strip_accents,
        normalizer.lowercase,
    )


@cache  # seconds of work, and at most a handful of settings in a process
def _measured(
    clean: bool, chinese: bool, accents: bool | None, lower: bool
) -> list[Rule]:
    rules: list[Rule] = []
    for code, result in _results(BertNormalizer(clean, chinese, accents, lower)):
        before, character, after = result.partition(chr(code))
        rule = Rule(code, before, bool(character), after)
        if not rules or rule[1:] != rules[-1][1:]:
            rules.append(rule)
    return rules


def _results(normalizer: BertNormalizer) -> Iterator[tuple[int, str]]:
    splitter = BertPreTokenizer()
    for first in range(0, _LAST, _BLOCK):
        codes = [c for c in range(first, first + _BLOCK) if c not in _SURROGATES]
        # Between two letters a character has no neighbour to combine with.
        text = " ".join(f"x{chr(code)}y" for code in codes)
        words = splitter.pre_tokenize_str(normalizer.normalize_str(text))
        joined = " ".join(word for word, _ in words)
        yield from zip(codes, joined[1:-1].split("y x") if codes else [], strict=True)
