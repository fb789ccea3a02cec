"""The cosine above which two sentences mean the same, against plain counting."""

import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.evaluate import calibrate_threshold


class Drawn:
    """Vectors by text; a translation is its source and some noise."""

    def __init__(self, pairs, noise, dim=6):
        draw = np.random.default_rng(3)
        self.table = {}
        for source, target in pairs:
            one = self.table.setdefault(source, draw.normal(size=dim))
            self.table.setdefault(target, one + noise * draw.normal(size=dim))

    def encode(self, texts):
        return np.array([self.table[text] for text in texts])


def answers(encoder, pairs):
    """Return (cosine, is it a translation) of every answer, each query by itself."""
    known, found = set(pairs), []
    sides = [list(dict.fromkeys(pair[side] for pair in pairs)) for side in (0, 1)]

    def cosine(one, other):
        a, b = encoder.table[one], encoder.table[other]
        return round(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)), 10)

    for way in (1, -1):
        queries, candidates = sides[::way]
        for query in queries:
            of = [
                (cosine(query, other), (query, other)[::way] in known)
                for other in candidates
            ]
            found += [one for one in of if one[1]]
            found += sorted(one for one in of if not one[1])[-1:]
    return found


PAIRS = [(f"s{i}", f"t{i}") for i in range(60)] + [("s0", "t0 again"), ("s1 too", "t1")]


@pytest.mark.parametrize("precision", [0.6, 0.8, 0.95, 1.0])
def test_lowest_threshold_of_the_precision(precision):
    encoder = Drawn(PAIRS, noise=0.45)
    found = calibrate_threshold(encoder, [*PAIRS, PAIRS[0]], precision, name="made")
    scored = answers(encoder, PAIRS)
    total = sum(right for _, right in scored)
    assert total == 2 * len(PAIRS)

    def at(threshold):
        kept = [right for cosine, right in scored if cosine >= threshold]
        return sum(kept), len(kept)

    precise = [
        cosine
        for cosine, _ in scored
        if at(cosine)[0] >= precision * at(cosine)[1]
    ]  # fmt: skip
    lowest = min(precise)
    below = max((cosine for cosine, _ in scored if cosine < lowest), default=lowest)
    assert found["cosine"] == pytest.approx((lowest + below) / 2, abs=1e-9)
    right, kept = at(found["cosine"])
    assert (right, kept) == at(lowest) and 0 < right < total
    assert found["precision"] == round(100 * right / kept, 4) >= 100 * precision
    assert found["recall"] == round(100 * right / total, 4)
    assert (found["pairs"], found["asked"], found["set"]) == (
        62,
        100 * precision,
        "made",
    )


def test_no_threshold_where_nothing_is_found():
    pairs = [("a", "1"), ("b", "2")]
    encoder = Drawn(pairs, noise=0)
    encoder.table |= {"1": encoder.table["b"], "2": encoder.table["a"]}
    found = calibrate_threshold(encoder, pairs)
    assert found["cosine"] is found["precision"] is None and found["pairs"] == 2


def test_without_any_wrong_answer_all_are_kept():
    pairs = [("a", "1"), ("a", "2")]
    encoder = Drawn(pairs, noise=0.3)
    found = calibrate_threshold(encoder, pairs)
    lowest = min(cosine for cosine, _ in answers(encoder, pairs))
    assert found["cosine"] == pytest.approx(lowest) and found["recall"] == 100


def test_bad_requests():
    encoder = Drawn(PAIRS, noise=0)
    with pytest.raises(InputError, match="`precision` must be above 0 and at most 1"):
        calibrate_threshold(encoder, PAIRS, 1.5)
    with pytest.raises(InputError, match="`pairs` must be at least 1"):
        calibrate_threshold(encoder, [])
