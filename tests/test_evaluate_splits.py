"""Halves of sets: one chooses, the other is reported; no sentence is in both."""

import hashlib
import json
import unicodedata

import numpy as np
import pytest
from scipy.stats import spearmanr
from table_encoder import Table
from test_evaluate_stsb_multilingual import write_ours
from test_evaluate_tatoeba import write_ours as write_tatoeba

from keras_msd import cli
from keras_msd.checks import InputError
from keras_msd.evaluate import (
    SETS,
    read_sts_folder,
    read_tatoeba,
    retrieval_languages,
    score_set,
    sts_aligned,
)
from keras_msd.evaluate.parts import half_of, halves
from keras_msd.testing import tiny_encoder

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


def check_halves(pairs, found):
    assert found == by_groups(pairs)
    sides = [
        {
            plain(t)
            for pair, half in zip(pairs, found, strict=True)
            for t in pair
            if half == h
        }
        for h in HALVES
    ]
    assert sides[0] and sides[1] and not sides[0] & sides[1]


def test_half_of_a_sentence_is_the_parity_of_its_hash():
    texts = [f"Sentence {i}." for i in range(200)]
    assert [half_of(text) for text in texts] == [by_hash(text) for text in texts]
    assert 70 < sum(half_of(text) == "choose" for text in texts) < 130
    assert half_of(CAFE) == half_of(f" {CAFE_IN_TWO}\n") == by_hash(CAFE)


@pytest.mark.parametrize("seed", range(8))
def test_pairs_that_share_a_sentence_are_of_one_half(seed):
    random = np.random.default_rng(seed)
    pairs = [(f"s{a}", f"s{b}") for a, b in random.integers(0, 160, (90, 2))]
    check_halves(pairs, halves(pairs))


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
        write_ours(tmp_path / f"sts/sick.dev.{code}.tsv.gz", rows_of(code))
    for code in ("deu", "fra"):
        write_tatoeba(tmp_path / "tatoeba", code, translations(code))
    return tmp_path


def translations(code, count=40):
    return [(f"English {i % 37} of {len(code)}", f"{code} {i}") for i in range(count)]


def scipys(encoder, rows):
    sides = [np.array([encoder.vectors[row[k]] for row in rows]) for k in (1, 2)]
    first, second = (s / np.linalg.norm(s, axis=1, keepdims=True) for s in sides)
    cosines = (first * second).sum(axis=1)
    return 100 * spearmanr(cosines, [row[0] for row in rows]).statistic


def test_a_half_has_the_same_rows_in_every_language(data):
    whole = {code: rows_of(code) for code in CODES}
    of = by_groups([row[1:] for row in whole["en"]])
    check_halves([row[1:] for row in whole["en"]], of)
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
        expected = {code: scipys(encoder, rows) for code, rows in kept.items()}
        for code in ("de", "fr"):
            both = zip(kept["en"], kept[code], strict=True)
            mixed = [(g, first, second) for (g, first, _), (*_, second) in both]
            expected[f"en-{code}"] = scipys(encoder, mixed)
        assert scores["tracks"] == pytest.approx(expected, abs=2e-4)
        assert scores["pairs"] == len(kept["en"]) and scores["part"] == part
        counted += scores.pop("pairs")
    assert counted == 80


def test_the_whole_is_as_it_was(data):
    for name in ("sick", "tatoeba"):
        whole = score_set(Table(), name, data)
        assert whole == score_set(Table(), name, data, part="all")
        assert "part" not in whole


def hits(encoder, queries, sentences, asked):
    """Count queries whose nearest sentence, among all, is their own."""
    found = 0
    for row in asked:
        near = [
            float(
                np.dot(*map(unit, (encoder.vectors[queries[row]], encoder.vectors[s])))
            )
            for s in sentences
        ]
        found += int(np.argmax(near)) == row
    return found


def unit(vector):
    return np.asarray(vector, float) / np.linalg.norm(vector)


def test_half_of_the_queries_search_all_sentences():
    random, encoder = np.random.default_rng(5), Table()
    pairs = {
        code: [(f"e{i}", f"{code}{i}") for i in range(60)] for code in ("deu", "fra")
    }
    for rows in pairs.values():
        for english, other in rows:
            near = encoder.vectors.setdefault(english, random.normal(size=8))
            encoder.vectors[other] = near + 1.2 * random.normal(size=8)
    whole = retrieval_languages(encoder, pairs)
    ways = "source_to_target", "target_to_source"
    for code, rows in pairs.items():
        weighted, counted = dict.fromkeys(ways, 0.0), 0
        english, others = zip(*rows, strict=True)
        for part in HALVES:
            scores = retrieval_languages(encoder, {code: rows}, part)
            asked = [i for i, text in enumerate(english) if by_hash(text) == part]
            assert scores["pairs"] == len(asked) < 60
            for way, sides in zip(
                ways, ((english, others), (others, english)), strict=True
            ):
                share = hits(encoder, *sides, asked) / len(asked)
                assert scores[way] == pytest.approx(100 * share, abs=1e-4)
                weighted[way] += scores[way] * len(asked)
            counted += len(asked)
        one = retrieval_languages(encoder, {code: rows})
        for way in ways:
            assert 0 < one[way] < 100
            assert weighted[way] / counted == pytest.approx(one[way], abs=1e-3)
        assert counted == 60 and whole["tracks"][code] == one["precision"]


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


def test_halves_that_cannot_be_scored(data):
    (data / "sts/sick.dev.en.tsv.gz").unlink()
    with pytest.raises(InputError, match=r"lacks en of .*Add `sick\.dev\.en\.tsv\.gz`"):
        score_set(Table(), "sick", data, ["de"], part="report")
    empty, other = sorted(HALVES, key=lambda part: part == half_of("a"))
    with pytest.raises(InputError, match=f"`deu` must have a pair .*'{empty}'"):
        retrieval_languages(Table(), {"deu": [("a", "b")]}, empty)
    linked = {"en": [(1.0, "a", "b"), (2.0, "a", "c")]}
    with pytest.raises(InputError, match=f"`en` must have a pair .*'{empty}'"):
        sts_aligned(Table(), linked, part=empty)
    assert sts_aligned(Table(), linked, part=other)["pairs"] == 2
    with pytest.raises(InputError, match="2 rows for en, 1 for de"):
        sts_aligned(Table(), linked | {"de": linked["en"][:1]}, part=other)


def test_on_the_command_line(data, capsys):
    encoder = tiny_encoder()
    encoder.save(data / "encoder")

    def shown(*options):
        with pytest.raises(SystemExit) as stop:
            cli.main(["evaluate", str(data / "encoder"), "--data", str(data), *options])
        assert stop.value.code == 0
        return capsys.readouterr().out

    found = json.loads(shown("--set", "sick", "--part", "report", "--json"))
    expected = score_set(encoder, "sick", data, part="report")
    assert found["part"] == "report" and found["pairs"] == expected["pairs"] < 80
    assert found["tracks"] == pytest.approx(expected["tracks"])
    assert "half choose" in shown("--set", "tatoeba", "--part", "choose")


def test_stsb_dev_and_tatoeba_as_they_are(shared_data):
    folder = shared_data / "sts"
    files = sorted(path.name for path in folder.glob("stsb.dev.*.tsv.gz"))
    rows = read_sts_folder(folder, [name.split(".")[2] for name in files])
    pairs = [row[1:] for row in rows["en"]]
    of = halves(pairs)
    check_halves(pairs, of)
    # Once and for all: another rule or another file would move the line.
    assert (of.count("choose"), of.count("report")) == (734, 766)
    encoder = Table(dim=4)
    scores = score_set(encoder, "stsb", folder, part="report")
    kept = [row for row, half in enumerate(of) if half == "report"]
    assert scores["pairs"] == 766 and len(rows) > 5
    read = {text for track in rows.values() for row in kept for text in track[row][1:]}
    assert set(encoder.seen) == read
    for pairs in read_tatoeba(shared_data / "tatoeba").values():
        reported = sum(half_of(english) == "report" for english, _ in pairs)
        assert 0.45 < reported / len(pairs) < 0.55
