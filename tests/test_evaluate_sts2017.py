"""STS 2017 in the folders in which it is published."""

import gzip

import numpy as np
import pytest
from table_encoder import Table, spearman

from keras_msd.checks import InputError
from keras_msd.evaluate import score_set, similarity
from keras_msd.evaluate.set_files import read_parts
from keras_msd.evaluate.similarity import TRACKS, find_sts2017, score_sts2017

PAIRS = 20
# As the published archive names them, in either order.
EXTENDED = "ar-ar en-ar en-de en-en en-tr es-en es-es fr-en it-en nl-en".split()
SEMEVAL = "ar-ar en-ar es-es es-en en-en en-tr".split()


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(similarity, "PAIRS", PAIRS)


def score(folder, languages=None):
    return score_set(Table(), "sts2017-extended", folder, languages)


def made_rows(pair, pairs=PAIRS):
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
    folder.mkdir(parents=True)
    for pair in EXTENDED:
        rows = made_rows(pair, pairs)
        text = "".join(f"{a}\t{b}\t{g}\n" for g, a, b in rows).encode()
        data = gzip.compress(text) if ending.endswith("gz") else text
        (folder / f"STS.{pair}{ending}").write_bytes(data)
    (folder / "._STS.en-de.txt").write_bytes(b"\0")  # what macOS leaves


def write_ours(folder, names=EXTENDED):
    (folder / "sts").mkdir(parents=True, exist_ok=True)
    for pair in names:
        text = "".join(f"{g}\t{a}\t{b}\n" for g, a, b in made_rows(pair))
        path = folder / "sts" / f"sts2017.test.{pair}.tsv.gz"
        path.write_bytes(gzip.compress(text.encode()))


def check(folder, files):
    """Compare with pairs scored one by one; `files` are the names on disk."""
    encoder = Table()
    scores = score_set(encoder, "sts2017-extended", folder)
    assert len(encoder.seen) == len(set(encoder.seen))
    expected = {}
    for pair in files:
        one, two = sorted(pair.split("-"), key=lambda code: code != "en")
        expected[f"{one}-{two}"] = spearman(encoder, made_rows(pair))
    assert scores["tracks"] == pytest.approx(expected, abs=2e-4)
    for key, languages in (("cross_lingual", 2), ("monolingual", 1)):
        found = [v for k, v in expected.items() if len({*k.split("-")}) == languages]
        assert scores[key] == pytest.approx(np.mean(found), abs=2e-4)
    assert scores["pairs"] == PAIRS * len(files)
    assert scores[scores["primary"]] == scores["cross_lingual"]
    return scores


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", "ours"])
def test_extended_as_downloaded(tmp_path, short, ending):
    if ending == "ours":
        write_ours(tmp_path)
    else:
        write_extended(tmp_path, ending=ending)
    scores = check(tmp_path, EXTENDED)
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
    with pytest.raises(InputError, match="`.*nowhere` does not exist"):
        score(tmp_path / "nowhere")


def test_a_track_has_250_pairs(tmp_path):
    write_extended(tmp_path / "short", 249)
    with pytest.raises(InputError, match=r"ar-ar.txt` must have 250 pairs.*: 249"):
        score(tmp_path / "short")
    write_extended(tmp_path / "whole", 250)
    assert score(tmp_path / "whole")["pairs"] == 2500


def test_our_layout_comes_first(tmp_path, short):
    write_ours(tmp_path)
    expected = score(tmp_path)
    (tmp_path / "STS.ar-en.txt").write_text("a\tb\t1.0\n" * PAIRS)
    assert score(tmp_path) == expected


def test_broken_files(tmp_path):
    for line, message in (
        ("a\tb\n", "line 1: a row must have 3 .*Received: 2"),
        ("a\tb\t1\na\tb\tx\n", "line 2: a score must be a finite number.*'x'"),
    ):
        (tmp_path / "STS.en-en.txt").write_text(line)
        with pytest.raises(InputError, match=message):
            score(tmp_path, [])
