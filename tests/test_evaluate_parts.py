"""Halves of sets: one chooses, the other is reported; no sentence is in both."""

import hashlib
import unicodedata

import numpy as np
import pytest
from small_recipe import write_rows
from table_encoder import Table, across, spearman

from keras_msd.checks import InputError
from keras_msd.evaluate import (
    SETS,
    retrieval_languages,
    score_set,
    sts_aligned,
)
from keras_msd.evaluate.parts import half_of, halves

HALVES = ("choose", "report")
# Two accents of one letter: composed, and as two code points.
CAFE, CAFE_IN_TWO = "caf\u00e9", "cafe\u0301"


def plain(text):
    return unicodedata.normalize("NFC", text).strip()


def by_hash(text):
    """The rule in other words: an even first byte has an even second hex digit."""
    digits = hashlib.sha256(plain(text).encode("utf-8")).hexdigest()
    return "choose" if digits[1] in "02468ace" else "report"


def by_groups(pairs):
    """Sentences that share a row are put together until no more are to be joined."""
    groups = []
    for pair in pairs:
        own = {plain(text) for text in pair}
        joined = own.union(*(group for group in groups if group & own))
        groups = [group for group in groups if not group & own] + [joined]
    of = {text: by_hash(min(group)) for group in groups for text in group}
    return [of[plain(first)] for first, _ in pairs]


@pytest.mark.parametrize("seed", range(8))
def test_pairs_that_share_a_sentence_are_of_one_half(seed):
    random = np.random.default_rng(seed)
    pairs = [(f"s{a}", f"s{b}") for a, b in random.integers(0, 160, (90, 2))]
    found = halves(pairs)
    assert found == by_groups(pairs) and {*found} == {*HALVES}


def test_long_chains_in_any_order_are_one_group():
    numbers = np.random.default_rng(1).permutation(500)
    for order in (np.arange(500), np.arange(500)[::-1], numbers):
        pairs = [(f"{i:03}", f"{i + 1:03}") for i in order]
        assert halves(pairs) == [by_hash("000")] * 500
    assert halves([("z", CAFE), (f"{CAFE_IN_TWO} ", "b")]) == [by_hash("b")] * 2


def rows_of(code, count=80):
    """Rows whose English side has repeated sentences, and no other language's has."""
    random = np.random.default_rng(3)
    gold, shared = random.integers(0, 26, count) / 5, random.integers(0, 60, count)
    if code == "en":
        sides = [(f"en one {i}", f"en two {k}") for i, k in enumerate(shared)]
    else:
        sides = [(f"{code} one {i}", f"{code} two {i}") for i in range(count)]
    return [(float(g), *side) for g, side in zip(gold, sides, strict=True)]


CODES = ("en", "de", "fr")


@pytest.fixture
def data(tmp_path):
    for code in CODES:
        write_rows(tmp_path / f"sts/sick.dev.{code}.tsv.gz", rows_of(code))
    return tmp_path


def test_a_half_has_the_same_rows_in_every_language(data):
    whole = {code: rows_of(code) for code in CODES}
    of = by_groups([row[1:] for row in whole["en"]])
    counted = 0
    for part in HALVES:
        encoder = Table()
        scores = score_set(encoder, "sick", data, part=part)
        kept = {
            code: [row for row, half in zip(rows, of, strict=True) if half == part]
            for code, rows in whole.items()
        }
        texts = {text for rows in kept.values() for row in rows for text in row[1:]}
        assert set(encoder.seen) == texts
        expected = {code: spearman(encoder, rows) for code, rows in kept.items()}
        for code in ("de", "fr"):
            rows = across(kept["en"], kept[code])
            expected[f"en-{code}"] = spearman(encoder, rows)
        assert scores["tracks"] == pytest.approx(expected, abs=2e-4)
        assert scores["pairs"] == len(kept["en"]) and scores["part"] == part
        counted += scores.pop("pairs")
    assert counted == 80


def test_half_of_the_queries_search_all_sentences():
    random, encoder = np.random.default_rng(5), Table()
    rows = [(f"e{i}", f"deu{i}") for i in range(60)]
    for english, other in rows:
        near = encoder.vectors.setdefault(english, random.normal(size=8))
        encoder.vectors[other] = near + 1.2 * random.normal(size=8)
    whole = retrieval_languages(encoder, {"deu": rows})
    parts = [retrieval_languages(encoder, {"deu": rows}, part) for part in HALVES]
    counts = [sum(by_hash(text) == part for text, _ in rows) for part in HALVES]
    assert [one["pairs"] for one in parts] == counts
    for way in ("source_to_target", "target_to_source"):
        scores = [one[way] for one in parts]
        assert 0 < whole[way] < 100 and scores[0] != scores[1]
        assert np.average(scores, weights=counts) == pytest.approx(whole[way], abs=1e-3)


def test_a_set_says_whether_it_has_halves(data):
    halved = {name for name, record in SETS.items() if "part" in record.options}
    assert halved == {*("stsb", "sick", "examples", "tatoeba", "held-out", "retrieval")}
    for name in ("sts2017-extended", "un", "bucc2018"):
        with pytest.raises(InputError, match=f"`{name}` has no halves; stsb, .*row-al"):
            score_set(Table(), name, data, part="choose")
    with pytest.raises(InputError, match="one of 'all', 'choose', 'report'.*'reprot'"):
        score_set(Table(), "sick", data, part="reprot")
    with pytest.raises(InputError, match="'first'"):
        retrieval_languages(Table(), {"deu": [("a", "b")]}, "first")


def test_halves_that_cannot_be_scored():
    empty, other = sorted(HALVES, key=lambda part: part == half_of("a"))
    with pytest.raises(InputError, match=f"`deu` must have a pair .*'{empty}'"):
        retrieval_languages(Table(), {"deu": [("a", "b")]}, empty)
    linked = {"en": [(1.0, "a", "b"), (2.0, "a", "c")]}
    with pytest.raises(InputError, match=f"`en` must have a pair .*'{empty}'"):
        sts_aligned(Table(), linked, part=empty)
    assert sts_aligned(Table(), linked, part=other)["pairs"] == 2
