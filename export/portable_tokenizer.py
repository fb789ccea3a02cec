"""A sentence encoder's tokenizer from its description, with nothing but Python.

The description is JSON that travels with an exported encoder: as the entry
`tokenizer.json` of a .tflite file, which is also a zip archive, and as the metadata
`tokenizer` of an .onnx file.

    with zipfile.ZipFile("model.tflite") as archive:
        tokenizer = PortableTokenizer(archive.read("tokenizer.json"))
    rows = tokenizer.encode(["Wo ist die Katze?"])
"""

import base64
import json
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

COMMON = {
    "max_length": int,
    "pad_id": int,
    "start_id": int,
    "end_id": int,
    "unknown_id": int,
    "pieces": list,
}
UNIGRAM = {
    "scores": list,
    "character_map": str,
    "add_dummy_prefix": bool,
    "remove_extra_whitespaces": bool,
    "escape_whitespaces": bool,
}
WORDPIECE = {"character_rules": list, "max_characters_per_word": int, "prefix": str}
UNKNOWN_PENALTY = 10.0
LARGEST_SCORE = 100_000.0
# What constructors raise for values that no exporter writes.
WRONG = (TypeError, ValueError, LookupError, OverflowError, struct.error)


class PortableTokenizer:
    """Turns text into token ids.

    Args:
        description: What the exporter wrote, UTF-8 JSON.

    Attributes:
        max_length: Most ids per sentence; a longer one loses ids before its end id.
        pad_id: Id that fills a row at its right.

    Raises:
        ValueError: The description is damaged, or of another version.
    """

    def __init__(self, description: bytes) -> None:
        fields = checked(description)
        self.max_length: int = fields["max_length"]
        self.pad_id: int = fields["pad_id"]
        self._start, self._end = fields["start_id"], fields["end_id"]
        model = Unigram if fields["kind"] == "unigram" else WordPiece
        try:
            self._model: Unigram | WordPiece = model(fields)
        except WRONG as error:
            raise damaged(str(error)) from error

    def encode(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, start and end included.

        Raises:
            ValueError: `texts` is one text, or one has a lone surrogate.
        """
        if isinstance(texts, str):
            raise ValueError("`texts` must be a list of texts. Received one text.")
        room = self.max_length - 2
        rows = (self._model.ids(text)[:room] for text in texts)
        return [[self._start, *row, self._end] for row in rows]


class Unigram:
    """The likeliest split of a text into pieces, as SentencePiece finds it.

    A run of characters that no piece covers is one unknown id. Scores are added in 32
    bits, as there; of two equal splits the one met first stays.

    Source: Kudo, ACL 2018 (arXiv:1804.10959).
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        scores, self._unknown = fields["scores"], fields["unknown_id"]
        rows = enumerate(zip(fields["pieces"], scores, strict=True))
        # A piece without a score, such as "</s>", stands for no text.
        self._ids = {piece: row for row, (piece, score) in rows if score is not None}
        self._scores = array("f", [score or 0.0 for score in scores])
        lowest = min(self._scores[number] for number in self._ids.values())
        self._scores[self._unknown] = lowest - UNKNOWN_PENALTY
        self._longest: dict[str, int] = {}  # by first character
        for piece in self._ids:
            known = self._longest.get(piece[0], 1)
            self._longest[piece[0]] = max(known, len(piece))
        content = base64.b64decode(fields["character_map"], validate=True)
        self._map = CharacterMap(content)
        self._prefix = b" " if fields["add_dummy_prefix"] else b""
        self._squeeze: bool = fields["remove_extra_whitespaces"]
        self._blank = "\u2581" if fields["escape_whitespaces"] else " "

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text, without start and end."""
        text = self.normalise(text)
        size, reached = len(text), 0
        # Of the best split of the first n characters: its score, where its last piece
        # starts, and the id of that piece.
        best = array("f", bytes(4 * (size + 1)))
        starts, last = [-1] * (size + 1), [0] * (size + 1)
        rounded = array("f", [0.0])
        for start, character in enumerate(text):
            so_far = best[start]
            if abs(so_far) > LARGEST_SCORE:
                # Without effect on sums but for their rounding, which decides ties.
                for end in range(start, reached + 1):
                    best[end] -= so_far
                so_far = 0.0
            limit = min(start + self._longest.get(character, 1), size)
            for end in range(start + 1, limit + 1):
                number = self._ids.get(text[start:end])
                if number is None:
                    if end > start + 1:
                        continue
                    number = self._unknown
                rounded[0] = so_far + self._scores[number]
                if starts[end] < 0 or rounded[0] > best[end]:
                    best[end], starts[end], last[end] = rounded[0], start, number
                    reached = max(reached, end)
        ids: list[int] = []
        while size:
            if not ids or not ids[-1] == last[size] == self._unknown:
                ids.append(last[size])
            size = starts[size]
        return ids[::-1]

    def normalise(self, text: str) -> str:
        """Return the text that is split, "▁" for a blank."""
        parts = [self._prefix] if text else []
        after_blank = self._squeeze
        for part in self._map.parts(text.encode()):
            part = part.lstrip(b" ") if after_blank else part
            if part:
                parts.append(part)
                after_blank = self._squeeze and part.endswith(b" ")
        normalised = b"".join(parts).decode().replace(" ", self._blank)
        return normalised.rstrip(self._blank) if self._squeeze else normalised


class CharacterMap:
    """SentencePiece's replacements: of those that fit at a place, the longest counts.

    Args:
        content: Size of a double array of bytes; the array, 32-bit units; the
            replacements, each with a zero at its end. Empty: nothing is replaced.

    Source: Aoe, IEEE TSE 15 (9), 1989; units as darts-clone packs them.
    """

    def __init__(self, content: bytes) -> None:
        self._units: tuple[int, ...] = ()
        if not content:
            return
        (size,) = struct.unpack_from("<I", content)
        self._units = struct.unpack_from(f"<{size // 4}I", content, 4)
        self._replacements = content[4 + size :]
        if size % 1024 or not self._replacements.endswith(b"\0"):
            raise ValueError("the character map is cut off")
        for row, unit in enumerate(self._units):
            if unit >> 31:
                bad = unit & 0x7FFFFFFF >= len(self._replacements)
            else:
                bad = (row ^ offset(unit)) | 255 >= len(self._units)
            if bad:
                raise ValueError(f"the character map is wrong at unit {row}")

    def parts(self, text: bytes) -> Iterator[bytes]:
        """Yield what becomes of the parts of a text, in UTF-8."""
        place = 0
        while place < len(text):
            part, length = self._longest(text, place)
            if not length:
                part, length = text[place : place + 1], 1
            yield part
            place += length

    def _longest(self, text: bytes, place: int) -> tuple[bytes, int]:
        if not self._units:
            return b"", 0
        node, length, start = offset(self._units[0]), 0, 0
        for end in range(place, len(text)):
            node ^= text[end]
            unit = self._units[node]
            if unit & 0x800000FF != text[end]:
                break
            node ^= offset(unit)
            if unit & 256:
                length = end + 1 - place
                start = self._units[node] & 0x7FFFFFFF
        return self._replacements[start : self._replacements.index(0, start)], length


def offset(unit: int) -> int:
    """Return the distance, by exclusive or, from a unit to those that follow it."""
    return (unit >> 10) << ((unit & 512) >> 6)


class WordPiece:
    """Words split at blanks and punctuation, then into the longest known pieces.

    Source: Devlin et al., NAACL 2019 (arXiv:1810.04805).
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        # A row without a piece is a special token that text cannot spell.
        rows = enumerate(fields["pieces"])
        self._ids = {piece: row for row, piece in rows if piece is not None}
        self._unknown: int = fields["unknown_id"]
        self._longest: int = fields["max_characters_per_word"]
        self._prefix: str = fields["prefix"]
        self._starts = [start for start, *_ in fields["character_rules"]]
        self._rules = [
            ("".join([before, ""]), bool(keep), "".join([after, ""]))
            for _, before, keep, after in fields["character_rules"]
        ]
        if self._starts != sorted(self._starts) or self._starts[0] != 0:
            raise ValueError("the character rules are not in order")

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text, without start and end."""
        text.encode()
        words = "".join(map(self._prepared, text)).split(" ")
        return [number for word in words if word for number in self._word(word)]

    def _prepared(self, character: str) -> str:
        rule = bisect_right(self._starts, ord(character)) - 1
        before, keep, after = self._rules[rule]
        return before + (character if keep else "") + after

    def _word(self, word: str) -> list[int]:
        ids: list[int] = []
        start = 0
        while start < len(word) <= self._longest:
            prefix = self._prefix if start else ""
            for end in range(len(word), start, -1):
                number = self._ids.get(prefix + word[start:end])
                if number is not None:
                    ids.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return ids or [self._unknown]


def checked(description: bytes) -> dict[str, Any]:
    """Return a description's fields; raise ValueError if one is missing or wrong."""
    try:
        fields = json.loads(description.decode())
    except ValueError as error:
        raise damaged(str(error)) from error
    if not isinstance(fields, dict) or fields.get("version") != 1:
        raise damaged("it is not of version 1")
    if fields.get("kind") not in ("unigram", "wordpiece"):
        raise damaged(f"its kind is {fields.get('kind')!r}")
    own = UNIGRAM if fields["kind"] == "unigram" else WORDPIECE
    for name, wanted in (COMMON | own).items():
        if type(fields.get(name)) is not wanted:
            raise damaged(f"`{name}` is no {wanted.__name__}")
    for name in ("pad_id", "start_id", "end_id", "unknown_id"):
        if not 0 <= fields[name] < len(fields["pieces"]):
            raise damaged(f"`{name}` has no piece")
    if fields["max_length"] < 2:
        raise damaged("`max_length` leaves no room for start and end")
    return fields


def damaged(why: str) -> ValueError:
    """Return the error for what is no description of a tokenizer."""
    return ValueError(
        f"The description of the tokenizer is damaged: {why}. Export the encoder again."
    )
