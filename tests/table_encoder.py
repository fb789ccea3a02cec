"""An encoder that is a table, rank correlation from its definition, made rows."""

import numpy as np


class Table:
    """Gives each sentence a vector made by hand or drawn once; counts what it sees."""

    def __init__(self, vectors=None, dim=8, seed=0, dtype=np.float32):
        self.vectors, self.dim, self.seen = dict(vectors or {}), dim, []
        self.dtype = dtype
        self.random = np.random.default_rng(seed)

    def encode(self, texts):
        self.seen += texts
        for text in texts:
            if text not in self.vectors:
                self.vectors[text] = self.random.normal(size=self.dim)
        return np.array([self.vectors[text] for text in texts], self.dtype)


class ByNumber:
    """A vector drawn from the number in "de 7", a little off for its language."""

    longest = 0  # most texts in a call

    def encode(self, texts):
        self.longest = max(self.longest, len(texts))
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text):
        language, number = text.split()
        near = np.random.default_rng(int(number)).normal(size=6)
        far = np.random.default_rng([int(number), *language.encode()]).normal(size=6)
        return near + 0.45 * far


def ranks(values):
    """Rank = how many are smaller, plus the middle of those that are equal."""
    values = np.asarray(values)
    smaller = (values[None] < values[:, None]).sum(1)
    return smaller + ((values[None] == values[:, None]).sum(1) - 1) / 2


def cosine(one, other, digits):
    a, b = np.asarray(one, float), np.asarray(other, float)
    return round(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)), digits)


def spearman(encoder, rows):
    """Return the rank correlation x100 of cosines and gold, pair by pair."""
    known = encoder.vectors
    cosines = [cosine(known[first], known[second], 6) for _, first, second in rows]
    return 100 * np.corrcoef(ranks(cosines), ranks([row[0] for row in rows]))[0, 1]


def across(english, other):
    """Return rows of the first sentences in English and the second in another."""
    both = zip(english, other, strict=True)
    return [(gold, first, second) for (gold, first, _), (*_, second) in both]


def made_rows(code, pairs=30):
    """Return rows of a similarity set whose sentences name their language."""
    gold = np.random.default_rng(4).integers(0, 26, pairs) / 5
    return [
        (float(g), f'{code}, "one" {i}', f"{code} two {i % 23}")
        for i, g in enumerate(gold)
    ]
