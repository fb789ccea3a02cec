"""Bitext mining against loops, the best F1, BUCC 2018, thresholds against counting."""

from functools import partial

import numpy as np
import pytest
import table_encoder
from small_recipe import write_rows
from table_encoder import ByNumber, cosine

from keras_msd import evaluate
from keras_msd.checks import InputError
from keras_msd.evaluate import calibrate_threshold
from keras_msd.evaluate.bitext import (
    MARGINS,
    MinedPair,
    best_f1,
    f1_at,
    find_bucc,
    mine,
    mine_vectors,
    score_bucc,
)
from keras_msd.evaluate.parts import read_parts

Table = partial(table_encoder.Table, dtype=np.float64)


def brute_force(sources, targets, margin, k):
    """Mine by whole tables; sorting makes every tie's winner the lowest rows."""
    table = np.array([[cosine(a, b, 10) for b in targets] for a in sources])
    nearest, means = [], []
    for lines in (table, table.T):
        nearest.append(np.argsort(-lines, axis=1, kind="stable")[:, :k])
        means.append(np.take_along_axis(lines, nearest[-1], axis=1).mean(axis=1))
    middle = (means[0][:, None] + means[1]) / 2
    ratio = np.divide(table, middle, out=0 * table, where=middle > 0)
    scores = {"absolute": table, "distance": table - middle, "ratio": ratio}[margin]
    found = []
    for way, queries in enumerate(nearest):
        for query, places in enumerate(queries):
            pairs = [(query, int(place))[:: 1 - 2 * way] for place in places]
            found.append(min((-round(float(scores[it]), 10), *it) for it in pairs))
    taken, kept = set(), []
    for value, i, j in sorted(found):
        if not {("source", i), ("target", j)} & taken:
            taken |= {("source", i), ("target", j)}
            kept.append((-value, i, j))
    return kept


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_ties(margin, k):
    # Signs and zeros: few different cosines among many different directions.
    draw = np.random.default_rng(k)
    signs = np.array([one for one in np.ndindex(3, 3, 3, 3) if one != (1,) * 4]) - 1
    sources, targets = draw.permutation(signs)[:60], 2 * draw.permutation(signs)[:50]
    sources[3], targets[4] = sources[2], targets[2]
    expected = brute_force(sources, targets, margin, k)
    scores = [score for score, _, _ in expected]
    assert len(set(scores)) < len(scores) - 8, "ties are what this is about"
    found = mine_vectors(sources, targets, margin, k)
    assert [pair[1:] for pair in found] == [pair[1:] for pair in expected]
    near = pytest.approx(scores, rel=1e-8, abs=2e-10)
    assert [pair.score for pair in found] == near


def test_negative_means_have_no_ratio():
    sources, targets = np.array([[1.0, 0], [0, 0]]), np.array([[-1.0, 0], [-1, 0.5]])
    assert mine_vectors(sources, targets) == [(0, 0, 0)]


def test_threshold_and_what_is_encoded():
    vectors = {"a": [1, 0], "b": [0.6, 0.8], "y": [0, 1]}
    encoder = Table(vectors)
    sources, targets = ["a", "b", "b"], ["y", "a", "y"]
    found = mine(encoder, sources, targets, "absolute")
    # Both copies on one side choose the first copy on the other.
    assert found == [(1.0, 0, 1), (0.8, 1, 0)]
    assert sorted(encoder.seen) == ["a", "b", "y"]
    assert mine(encoder, sources, targets, "absolute", threshold=1.0) == found[:1]
    assert mine(encoder, sources, targets, "absolute", threshold=0.8) == found
    assert mine(encoder, sources, targets, "absolute", threshold=1.1) == []


def every_threshold(pairs, gold):
    """Return the best (F1, threshold's lowest score, pairs) by trying all of them."""
    best = (0.0, 0.0, 0)
    for low in sorted({score for score, _, _ in pairs}, reverse=True):
        kept = {pair[1:] for pair in pairs if pair[0] >= low}
        f1 = 2 * len(kept & gold) / (len(kept) + len(gold))
        if f1 > best[0]:
            best = (f1, low, len(kept))
    return best


@pytest.mark.parametrize("seed", range(8))
def test_best_f1_is_that_of_the_best_threshold(seed):
    draw = np.random.default_rng(seed)
    scores = -np.sort(-draw.integers(1, 12, 40) / 8)
    pairs = [MinedPair(float(score), i, i) for i, score in enumerate(scores)]
    gold = {(i, i + int(draw.random() < i / 40)) for i in range(0, 50, 2)}
    found = best_f1(pairs, gold)
    f1, low, count = every_threshold(pairs, gold)
    assert found["f1"] == pytest.approx(100 * f1, abs=1e-4)
    assert found["pairs"] == count and found["gold"] == 25
    lower = [score for score in scores if score < low]
    assert found["threshold"] == (low + max(lower) if lower else 2 * low) / 2
    assert f1_at(pairs, gold, found["threshold"]) == found


def test_best_f1_by_hand():
    pairs = [MinedPair(*one) for one in ((0.9, 0, 0), (0.7, 1, 5), (0.5, 2, 2))]
    gold = [(0, 0), (1, 1), (2, 2), (2, 2)]
    assert best_f1(pairs, gold) == {
        "f1": 66.6667, "precision": 66.6667, "recall": 66.6667,
        "threshold": 0.5, "pairs": 3, "gold": 3, "primary": "f1",
    }  # fmt: skip
    none = best_f1(pairs, [(7, 7)])
    assert (none["f1"], none["threshold"], none["pairs"]) == (0, 0.5, 3)
    empty = best_f1([], gold)
    assert (empty["f1"], empty["precision"], empty["pairs"]) == (0, 0, 0)


def test_mistakes():
    encoder = Table({"a": [1, 0]})
    with pytest.raises(InputError, match="`margin` must be one of.*`ratio`"):
        mine(encoder, ["a"], ["a"], "ration")
    with pytest.raises(InputError, match="`k` must be at least 1"):
        mine(encoder, ["a"], ["a"], k=0)
    with pytest.raises(InputError, match="`targets` must be at least 1"):
        mine(encoder, ["a"], [])


def test_paraphrases_in_one_list():
    """Against all pairs of a plain product; a sentence is not its own paraphrase."""
    draw = np.random.default_rng(3)
    vectors = {f"{n}": draw.normal(size=6) for n in range(12)}
    vectors["copy"] = 2 * vectors["4"]
    texts = [*vectors, "7"]
    units = np.array([vectors[text] / np.linalg.norm(vectors[text]) for text in texts])
    cosines = units @ units.T
    rows = [(i, j) for i in range(14) for j in range(i + 1, 14)]
    wanted = sorted(rows, key=lambda it: (-round(cosines[it], 10), it))
    found = evaluate.mine_paraphrases(Table(vectors), texts, k=13)
    assert [pair[1:] for pair in found] == wanted
    scores = [pair.score for pair in found]
    np.testing.assert_allclose(scores, [cosines[it] for it in wanted], atol=1e-9)
    assert {pair[1:] for pair in found[:2]} == {(4, 12), (7, 13)}
    some = evaluate.mine_paraphrases(Table(vectors), texts, k=2, threshold=0.5)
    near = np.argsort(-(cosines - 9 * np.eye(14)), axis=1, kind="stable")[:, :2]
    pairs = {(min(i, j), max(i, j)) for i in range(14) for j in near[i].tolist()}
    assert {pair[1:] for pair in some} == {it for it in pairs if cosines[it] >= 0.5}
    with pytest.raises(InputError, match="`sentences` must be at least 2"):
        evaluate.mine_paraphrases(Table(vectors), ["1"])


def write(folder, split, code="de", pairs=range(20), alone=15, shift=0):
    """Write a split: `pairs` have a translation, the other sentences have none."""
    numbers = [shift + number for number in pairs]
    for language, start in ((code, 1000), ("en", 2000)):
        own = numbers + [start + shift + number for number in range(alone)]
        order = np.random.default_rng(len(language)).permutation(own)
        rows = [(f"{language}-{number}", f"{language} {number}") for number in order]
        write_rows(folder / f"{code}-en.{split}.{language}", rows)
    gold = [(f"{code}-{number}", f"en-{number}") for number in numbers]
    write_rows(folder / f"{code}-en.{split}.gold", gold)


def mined(part, *options, **more):
    pairs = mine(ByNumber(), part.sources, part.targets, *options, **more)
    return best_f1(pairs, part.gold)


def read_bucc(folder, language, split="train"):
    [splits] = read_parts(find_bucc(folder, [language], split)).values()
    return splits[split]


def score(folder, languages, split="train", **options):
    parts = read_parts(find_bucc(folder, languages, split))
    return score_bucc(ByNumber(), parts, **options)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "de-en", "training")
    write(tmp_path / "de-en", "test", shift=100)
    write(tmp_path / "de-en", "sample", alone=2, pairs=range(3))
    write(tmp_path / "fr-en", "training", "fr", pairs=range(12))
    return tmp_path


def test_rows_follow_names(folder):
    part = read_bucc(folder, "de", "sample")
    assert len(part.sources) == len(part.targets) == 5
    named = {(part.sources[i], part.targets[j]) for i, j in part.gold}
    assert named == {(f"de {number}", f"en {number}") for number in range(3)}


@pytest.mark.parametrize("margin", ["ratio", "distance"])
def test_best_f1_of_the_split_itself(folder, margin):
    found = score(folder, ["de", "fr"], margin=margin, k=3)
    single = {}
    for code in ("de", "fr"):
        part = read_bucc(folder, code)
        single[code] = mined(part, margin, k=3)
        assert 30 < single[code]["f1"] < 100
        assert found["tracks"][f"{code}-en"] == single[code]["f1"]
        assert found["thresholds"][f"{code}-en"] == single[code]["threshold"]
    for key in ("f1", "precision", "recall"):
        mean = (single["de"][key] + single["fr"][key]) / 2
        assert found[key] == pytest.approx(mean, abs=1e-4)
    assert found["gold"] == 32
    assert found["pairs"] == single["de"]["pairs"] + single["fr"]["pairs"]
    assert (found["margin"], found["k"], found["primary"]) == (margin, 3, "f1")


def test_threshold_of_another_split(folder):
    found = score(folder, ["de"], split="test")
    train, test = read_bucc(folder, "de"), read_bucc(folder, "de", "test")
    threshold = mined(train)["threshold"]
    assert found["thresholds"] == {"de-en": threshold}
    kept = mine(ByNumber(), test.sources, test.targets, threshold=threshold)
    right = len({pair[1:] for pair in kept} & set(test.gold))
    assert found["pairs"] == len(kept)
    assert found["f1"] == pytest.approx(200 * right / (len(kept) + 20), abs=1e-4)
    assert found["f1"] < mined(test)["f1"], "tuning elsewhere has its price"


def test_two_languages_without_english(tmp_path):
    sentences = {"de": "de-1\tde 1\n", "fr": "fr-1\tfr 1\n", "gold": "de-1\tfr-1\n"}
    for ending, text in sentences.items():
        (tmp_path / f"de-fr.training.{ending}").write_text(text)
    assert score(tmp_path, ["de-fr"], k=1)["tracks"] == {"de-fr": 100.0}
    with pytest.raises(
        InputError, match="de-it.training.it.*pairs without English are not"
    ):
        read_bucc(tmp_path, "de-it")


def test_errors_say_what_is_missing(folder):
    (folder / "de-en" / "de-en.training.gold").unlink()
    words = r"lacks de-en.training.gold of BUCC 2018. Unpack bucc2018-de-en.training-g"
    with pytest.raises(InputError, match=words):
        score(folder, ["fr", "de"])
    with pytest.raises(InputError, match="Gold pairs of `test`"):
        score(folder, ["fr"], split="test")


@pytest.mark.parametrize(
    ("ending", "text", "words"),
    [
        ("de", "de-1\ta\tb\n", "de-en.training.de`, line 1: .* 2 fields.* Received: 3"),
        ("en", "en-1\ta\nen-1\tb\n", "line 2: an id may be used once.*'en-1' again"),
        ("gold", "de-1\ten-1\nde-1\ten-x\n", "line 2: .*training.en`.*'en-x'"),
        ("gold", "\n", "line 1: a line must have 2"),
    ],
)
def test_broken_files(folder, ending, text, words):
    (folder / "de-en" / f"de-en.training.{ending}").write_text(text)
    with pytest.raises(InputError, match=words):
        read_bucc(folder, "de")


def noisy(pairs, noise):
    """Return an encoder for which a translation is its source and some noise."""
    draw, vectors = np.random.default_rng(3), {}
    for source, target in pairs:
        one = vectors.setdefault(source, draw.normal(size=6))
        vectors.setdefault(target, one + noise * draw.normal(size=6))
    return Table(vectors)


def answers(encoder, pairs):
    """Return (cosine, is it a translation) of every answer, each query by itself."""
    known, found, vectors = set(pairs), [], encoder.vectors
    sides = [list(dict.fromkeys(pair[side] for pair in pairs)) for side in (0, 1)]
    for way in (1, -1):
        queries, candidates = sides[::way]
        for query in queries:
            of = [
                (
                    cosine(vectors[query], vectors[other], 10),
                    (query, other)[::way] in known,
                )
                for other in candidates
            ]
            found += [one for one in of if one[1]]
            found += sorted(one for one in of if not one[1])[-1:]
    return found


PAIRS = [(f"s{i}", f"t{i}") for i in range(60)] + [("s0", "t0 again"), ("s1 too", "t1")]


@pytest.mark.parametrize("precision", [0.6, 0.8, 0.95, 1.0])
def test_lowest_threshold_of_the_precision(precision):
    encoder = noisy(PAIRS, noise=0.45)
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
    assert (found["pairs"], found["set"]) == (62, "made")
    assert found["asked"] == 100 * precision


def test_no_threshold_where_nothing_is_found():
    pairs = [("a", "1"), ("b", "2")]
    encoder = noisy(pairs, noise=0)
    encoder.vectors |= {"1": encoder.vectors["b"], "2": encoder.vectors["a"]}
    found = calibrate_threshold(encoder, pairs)
    assert found["cosine"] is found["precision"] is None and found["pairs"] == 2


def test_without_any_wrong_answer_all_are_kept():
    pairs = [("a", "1"), ("a", "2")]
    encoder = noisy(pairs, noise=0.3)
    found = calibrate_threshold(encoder, pairs)
    lowest = min(cosine for cosine, _ in answers(encoder, pairs))
    assert found["cosine"] == pytest.approx(lowest) and found["recall"] == 100


def test_thresholds_of_what_does_not_fit():
    encoder = noisy(PAIRS, noise=0)
    with pytest.raises(InputError, match="`precision` must be above 0 and at most 1"):
        calibrate_threshold(encoder, PAIRS, 1.5)
    with pytest.raises(InputError, match="`pairs` must be at least 1"):
        calibrate_threshold(encoder, [])
