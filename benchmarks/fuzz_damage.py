"""What benchmarks/fuzz.py does to files: bytes, lines, values and words at random.

All draws come from one `random.Random`, or what Hypothesis gives in its place, so that
the same state gives the same damage.
"""

import gzip
import json
import struct
from functools import lru_cache
from random import Random
from typing import Any

ODD_VALUES: list[Any] = [
    *(None, True, -1, 0, 1, 2**31, 10**12, 10**400, 1.5, -0.0, 1e308, float("nan")),
    *(float("inf"), "", "x", "\0", "é" * 300, "\ud800", "../x", "[PAD]", "a" * 100_000),
    *([], {}, [[]], [1, "a", None], {"content": 1}, {"type": "Sequence"}),
]
TOKENS = [
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\r", b"\n", b"\t", b'"', b"\\", b"[", b"{"),
    *(b"<", b"<tu>", b"<seg>", b"</seg>", b"<![CDATA[", b"<!--", b"&amp;", b"&x;"),
    *(b"&#0;", b'msgid "', b'msgstr "a"\n', b"#~ ", b"#, fuzzy\n", b"msgid_plural"),
    *(b"[0]", b"charset=idna", b"plural=n/0;", b"a.b = 1\n", b"[[x]]\n", b"inf"),
    *(b"9" * 5000, b"1e999", b"\\u0000", b"\\ud800", b"{}", b"[]", b"null", b" "),
    *(b"\xef\xbb\xbf", b",", b";", b"\n\n", b"'", b"="),
]
# Names of keys that readers know, at the wrong place; the last is half of a pair.
KEYS = ["", "x", "type", "content", "config", "path", "\ud800"]
# Words for any command: no path that leads out of the folder it works in.
WORDS = [
    *("", "-", "--", "--json", "--help", "--out", "out", "--set", "recipe.seed=1"),
    *("a.b.c=", "stages.teach_student.steps=-1", "data.languages=[[]]", "--scale"),
    *("paper", "--data", "--top", "-1", "1e400", "nan", "9" * 5000, "0"),
    *("--threshold", "card", "--format", "onnx", "--quantize", "int3"),
    *("--languages", "de,,", ",", "--texts", "--pairs", "--model", "nowhere", "\ud800"),
    *("--seed", "--split", "--set=x", "é" * 300, "a" * 5000, "\0", "\n"),
    *("lines.txt", "pairs.en-de.tsv", "--limit", "--keep", "0.5"),
]
MOST = 1 << 19  # bytes that are added at once


def damaged(draw: Random, name: str, data: bytes) -> bytes:
    """Return the content of a file after some damage.

    Args:
        draw: Decides all.
        name: The file's; its end says what it holds.
        data: The whole content.
    """
    if data.startswith(b"\x1f\x8b") and draw.randrange(2):
        return gzip.compress(damaged(draw, name, gzip.decompress(data)), 1)
    if name.endswith(".words"):
        return json.dumps(other_words(draw, json.loads(data))).encode()
    if name.endswith(".json") and draw.randrange(4):
        return json.dumps(odd(draw, _parsed(data))).encode()
    if name.endswith(".safetensors") and draw.randrange(2):
        length = struct.unpack("<Q", data[:8])[0]
        head = json.dumps(odd(draw, json.loads(data[8 : 8 + length]))).encode()
        return struct.pack("<Q", len(head)) + head + data[8 + length :]
    lines = name.endswith((".txt", ".toml", ".jsonl", ".tsv", ".csv"))
    for _ in range(draw.randrange(1, 5)):
        data = _changed(draw, data, lines and draw.randrange(2) == 0)
    return data


@lru_cache(maxsize=64)
def _parsed(data: bytes) -> Any:
    return json.loads(data)


def _changed(draw: Random, data: bytes, lines: bool) -> bytes:
    """Return bytes with one part, perhaps of whole lines, cut, repeated or replaced."""
    ends = sorted((draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)))
    if lines:
        ends = [data.rfind(b"\n", 0, end) + 1 for end in ends]
    before, part, after = data[: ends[0]], data[slice(*ends)], data[ends[1] :]
    token = draw.choice(TOKENS) if draw.randrange(2) else _few_bytes(draw)
    what = draw.randrange(6)
    if what == 0:
        return before + after
    if what == 1:
        return before + _often(draw, part) + after
    if what == 2:
        return before + _often(draw, token) + after
    if what == 3:
        return before + token + part + after
    if what == 4:
        return before
    return before + token + data[ends[0] + len(token) :]


def _few_bytes(draw: Random) -> bytes:
    return bytes(draw.randrange(256) for _ in range(draw.randrange(1, 9)))


def _often(draw: Random, part: bytes) -> bytes:
    """Return bytes repeated: mostly a few times, seldom so often that they are many."""
    roll = draw.randrange(128)
    times = 30_000 if roll == 0 else 100 if roll < 12 else 2 if roll < 40 else 1
    return part * min(times, 1 + MOST // (len(part) + 1))


def odd(draw: Random, value: Any) -> Any:
    """Return what JSON says with one value, anywhere, that no writer writes."""
    if isinstance(value, dict | list) and value and draw.randrange(10):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = draw.choice(keys)
        changed = value.copy()
        action = draw.randrange(10)
        if action == 0:
            del changed[key]
        elif action == 1 and isinstance(changed, dict):
            changed[draw.choice(KEYS)] = changed[key]
        else:
            changed[key] = odd(draw, value[key])
        return changed
    if draw.randrange(10) == 0:
        for _ in range(draw.choice((50, 700))):
            value = [value]
        return value
    return draw.choice(ODD_VALUES)


def other_words(draw: Random, words: list[str]) -> list[str]:
    """Return the words of a command with some left out, moved, added or replaced."""
    words = list(words)
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(words) + 1)
        what = draw.randrange(4)
        if what == 0:
            del words[place : place + 1]
        elif what == 1:
            words.insert(place, draw.choice(WORDS))
        elif what == 2:
            words[place : place + 1] = [draw.choice(WORDS)]
        else:
            words[place : place + 2] = words[place : place + 2][::-1]
    return words
