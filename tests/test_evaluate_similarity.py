"""STS: correlations, STS 2017 as it is published, the multilingual STS benchmark."""

import numpy as np
import pytest
from small_recipe import write_rows
from table_encoder import Table, across, made_rows, spearman

from keras_msd.checks import InputError
from keras_msd.evaluate import score_set, similarity, sts, sts_aligned
from keras_msd.evaluate.parts import read_parts
from keras_msd.evaluate.similarity import TRACKS, find_sts2017, score_sts2017


def test_hand_made_cosines_with_ties():
    # Cosines with a: 1, 0.8, 0.8, 0; gold 5, 3, 4, 1. Ranks 4, 2.5, 2.5, 1 against
    # 4, 2, 3, 1: the rank correlation is 4.5 / sqrt(4.5 * 5).
    encoder = Table({"a": [2, 0], "b": [1, 0], "c": [4, 3], "d": [4, -3], "e": [0, 1]})
    rows = [(5, "a", "b"), (3, "a", "c"), (4, "a", "d"), (1, "a", "e")]
    scores = sts(encoder, rows)
    assert scores["spearman"] == pytest.approx(100 * 4.5 / np.sqrt(22.5), abs=1e-4)
    assert scores["pairs"] == 4 and scores[scores["primary"]] == scores["spearman"]
    assert type(scores["spearman"]) is float


@pytest.mark.parametrize(
    ("vectors", "score"),
    [
        ({"a": [1, 0], "b": [1, 0], "c": [1, 0], "d": [1, 0]}, 0.0),  # equal cosines
        ({"a": [1, 0], "b": [0, 0], "c": [1, 1], "d": [-1, 0]}, 100.0),  # of b: 0
    ],
)
def test_cosines_of_a_kind(vectors, score):
    rows = [(2, "a", "b"), (3, "a", "c"), (1, "a", "d")]
    assert sts(Table(vectors), rows)["spearman"] == score


def test_aligned_means_and_each_sentence_once():
    encoder, rows = Table(), {code: made_rows(code, 40) for code in ("en", "de", "tr")}
    scores = sts_aligned(encoder, rows)
    one = {code: spearman(encoder, rows[code]) for code in rows}
    both = {
        f"en-{code}": spearman(encoder, across(rows["en"], rows[code]))
        for code in ("de", "tr")
    }
    assert scores["tracks"] == pytest.approx(one | both, abs=2e-4)
    for key, values in (("monolingual", one), ("cross_lingual", both)):
        assert scores[key] == pytest.approx(np.mean([*values.values()]), abs=2e-4)
    others = [across(rows["en"], rows[code]) for code in ("de", "tr")]
    together = [row for track in (*rows.values(), *others) for row in track]
    bias = spearman(encoder, together) - np.mean([*(one | both).values()])
    assert scores["language_bias"] == pytest.approx(bias, abs=3e-4)
    assert scores["primary"] == "cross_lingual" and scores["pairs"] == 40
    assert len(encoder.seen) == len(set(encoder.seen)) == 3 * (40 + 23)


def test_the_bias_is_what_one_list_loses():
    # Both languages rank their pairs as the gold scores, but German pairs are nearer:
    # English cosines are 0.6 and 0, those of German and across 1 and 0.8.
    vectors = {"a": [1, 0], "b": [3, 4], "c": [0, 1], "d": [1, 0], "e": [4, 3]}
    encoder = Table(vectors)
    english = [(2.0, "a", "b"), (1.0, "a", "c")]
    german = [(2.0, "a", "d"), (1.0, "a", "e")]
    scores = sts_aligned(encoder, {"en": english, "de": german})
    assert scores["cross_lingual"] == scores["monolingual"] == 100
    one_list = np.corrcoef([2, 1, 5.5, 3.5, 5.5, 3.5], [2, 1, 2, 1, 2, 1])[0, 1]
    assert scores["language_bias"] == pytest.approx(100 * one_list - 100, abs=1e-4)
    assert "language_bias" not in sts_aligned(encoder, {"en": english})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["1 a b", "2 a"], r"de\.tsv\.gz`, line 2: .* 3 fields.*Received: 2"),
        (["1 a b", "x a b"], r"line 2: .*finite number. Received: 'x'"),
        (["1 a b", "nan a b"], r"finite number. Received: 'nan'"),
        (["1 a b"], r"row-aligned. Received: 2 rows for en, 1 for de"),
        (["1 a b", "3 a b"], r"score 2 for en and 3 for de in line 2"),
        ([], "is empty"),
    ],
)
def test_bad_files_name_file_and_line(tmp_path, content, message):
    write_rows(tmp_path / "stsb.dev.en.tsv.gz", [(1, "a", "b"), (2, "c", "d")])
    write_rows(tmp_path / "stsb.dev.de.tsv.gz", map(str.split, content))
    with pytest.raises(InputError, match=message):
        score_set(Table(), "stsb", tmp_path, ["de"])


@pytest.mark.parametrize(("row", "value"), [(0, np.nan), (3, np.inf)])
def test_vectors_that_are_not_finite_are_refused(row, value):
    rows = [(float(i), f"a{i}", f"b{i}") for i in range(4)]
    encoder = Table()
    encoder.vectors[f"b{row}"] = [value] * 8
    with pytest.raises(InputError, match=f"NaN or infinity for 1 of 8 .*'b{row}'"):
        sts(encoder, rows)


def test_wrong_shapes_and_useless_gold_are_refused():
    class Flat:
        def encode(self, texts):
            return np.zeros(len(texts))

    with pytest.raises(InputError, match=r"one vector per sentence.*\(2,\)"):
        sts(Flat(), [(1, "a", "b"), (2, "b", "a")])
    with pytest.raises(InputError, match="1 distinct scores"):
        sts(Table(), [(1, "a", "b"), (1, "b", "a")])
    with pytest.raises(InputError, match="0 rows"):
        sts(Table(), [])
    with pytest.raises(InputError, match="English rows are needed"):
        sts_aligned(Table(), {"de": [(1, "a", "b")]})


PAIRS = 20
# As the published archive names them, in either order.
EXTENDED = "ar-ar en-ar en-de en-en en-tr es-en es-es fr-en it-en nl-en".split()
SEMEVAL = "ar-ar en-ar es-es es-en en-en en-tr".split()


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(similarity, "PAIRS", PAIRS)


def score(folder, languages=None):
    return score_set(Table(), "sts2017-extended", folder, languages)


def track_rows(pair, pairs=PAIRS):
    """Return rows whose sentences name their languages; English ones are shared."""
    one, two = pair.split("-")
    draw = np.random.default_rng(sum(map(ord, pair)))
    gold = draw.integers(0, 11, pairs) / 2
    return [
        (float(g), f"{one} first {i}", f"{two} second {i % 17}")
        for i, g in enumerate(gold)
    ]


def write_extended(folder, pairs=PAIRS, ending=".txt"):
    folder = folder / "STS2017-extended"
    for pair in EXTENDED:
        rows = [(*texts, gold) for gold, *texts in track_rows(pair, pairs)]
        write_rows(folder / f"STS.{pair}{ending}", rows)
    (folder / "._STS.en-de.txt").write_bytes(b"\0")  # what macOS leaves


def write_ours(folder, names=EXTENDED):
    for pair in names:
        write_rows(folder / f"sts/sts2017.test.{pair}.tsv.gz", track_rows(pair))


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", "ours"])
def test_extended_as_downloaded(tmp_path, short, ending):
    if ending == "ours":
        write_ours(tmp_path)
    else:
        write_extended(tmp_path, ending=ending)
    encoder, expected = Table(), {}
    scores = score_set(encoder, "sts2017-extended", tmp_path)
    assert len(encoder.seen) == len(set(encoder.seen))
    for pair in EXTENDED:
        one, two = sorted(pair.split("-"), key=lambda code: code != "en")
        expected[f"{one}-{two}"] = spearman(encoder, track_rows(pair))
    assert scores["tracks"] == pytest.approx(expected, abs=2e-4)
    for key, languages in (("cross_lingual", 2), ("monolingual", 1)):
        found = [v for k, v in expected.items() if len({*k.split("-")}) == languages]
        assert scores[key] == pytest.approx(np.mean(found), abs=2e-4)
    assert scores["pairs"] == PAIRS * len(EXTENDED)
    assert scores[scores["primary"]] == scores["cross_lingual"]
    assert list(scores["tracks"]) == list(TRACKS)


def test_languages_choose_tracks(tmp_path, short):
    write_extended(tmp_path)
    scores = score(tmp_path, ["de", "es"])
    assert [*scores["tracks"]] == ["es-es", "en-en", "en-de", "en-es"]
    scores = score(tmp_path, [])
    assert "cross_lingual" not in scores and scores["primary"] == "monolingual"
    rows = read_parts(find_sts2017(tmp_path, ["es"]))
    across = score_sts2017(Table(), rows, within=False)
    assert "monolingual" not in across and [*across["tracks"]] == ["en-es"]
    with pytest.raises(InputError, match="has the languages ar, de, .*Received: ru"):
        score(tmp_path, ["ru"])


def test_missing_tracks_are_all_named(tmp_path):
    write_ours(tmp_path, SEMEVAL)
    message = r"lacks en-de, en-fr, en-it, en-nl of STS 2017.*Found: ar-ar, en-ar, en-e"
    with pytest.raises(InputError, match=message):
        score(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"lacks en-en, en-de of .*Found: none"):
        score(tmp_path / "empty", ["de"])


def test_a_track_has_250_pairs(tmp_path):
    write_extended(tmp_path / "short", 249)
    with pytest.raises(InputError, match=r"ar-ar.txt` must have 250 pairs.*: 249"):
        score(tmp_path / "short")
    write_extended(tmp_path / "whole", 250)
    assert score(tmp_path / "whole")["pairs"] == 2500
