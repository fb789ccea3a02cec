"""Stand-ins for a tokenizer, an encoder and a guide, shared by the data tests."""

import hashlib

import numpy as np


class WordTokenizer:
    """One id per word, from its hash; starts with 1 and ends with 2."""

    pad_id = 0
    vocabulary_size = 1000
    fingerprint = "words"

    def encode(self, texts, max_length=None):
        ids = [[1, *map(self.word, text.split())][: max_length - 1] for text in texts]
        return [one + [2] for one in ids]

    def word(self, word):
        return 3 + int(hashlib.md5(word.encode()).hexdigest(), 16) % 997


class WordEncoder:
    """All that batches need of an encoder."""

    def __init__(self, max_length=32):
        self.tokenizer, self.max_length = WordTokenizer(), max_length


class HashGuide:
    """Vectors that follow from the sentence alone; counts what it was asked."""

    def __init__(self, dim=4, fingerprint="hash"):
        self.dim, self.fingerprint = dim, fingerprint
        self.asked = []

    def encode(self, texts):
        self.asked += texts
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text):
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
        return np.random.default_rng(seed).standard_normal(self.dim, np.float32)


def sentences(count, seed=0, longest=20):
    """Return distinct sentences of 1 to `longest` words."""
    generator = np.random.default_rng(seed)
    made = []
    for number in range(count):
        words = generator.integers(0, 500, generator.integers(0, longest))
        made.append(" ".join([f"s{number}", *(f"w{word}" for word in words)]))
    return made


def triples(counts, seed=0):
    """Return pairs for `{language: count}`; all languages share their English lines."""
    return [
        (english, f"{language} {english[::-1]}", language)
        for language, count in counts.items()
        for english in sentences(count, seed)
    ]
