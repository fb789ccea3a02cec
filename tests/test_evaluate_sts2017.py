"""STS 2017 in the folders in which it is published."""

import gzip

import numpy as np
import pytest
from table_encoder import Table, spearman

from keras_msd.checks import InputError
from keras_msd.evaluate import score_set, similarity_sets
from keras_msd.evaluate.similarity_sets import TRACKS, score_sts2017

PAIRS = 20
# As the published archives name them: either order, and `a` for the fourth track.
EXTENDED = "ar-ar en-ar en-de en-en en-tr es-en es-es fr-en it-en nl-en".split()
SEMEVAL = "1.ar-ar 2.ar-en 3.es-es 4a.es-en 4b.es-en 5.en-en 6.tr-en".split()


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(similarity_sets, "PAIRS", PAIRS)


def score(folder, languages=None, name="sts2017-extended"):
    return score_set(Table(), name, folder, languages)


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


def write_semeval(folder, inputs="STS2017.eval.v1.1", golds="STS2017.gs"):
    for name in {inputs, golds}:
        (folder / name).mkdir(parents=True)
    for name in SEMEVAL:
        pair = name.split(".")[1]
        rows = made_rows("mt-mt" if name.startswith("4b") else pair)
        text = "".join(f"{a}\t{b}\tSNLI\tSNLI\r\n" for _, a, b in rows)
        (folder / inputs / f"STS.input.track{name}.txt").write_bytes(text.encode())
        scores = "".join(f"{g}\n" for g, _, _ in rows)
        (folder / golds / f"STS.gs.track{name}.txt").write_text(scores)


def check(folder, files, name="sts2017-extended"):
    """Compare with pairs scored one by one; `files` are the names on disk."""
    encoder = Table()
    scores = score_set(encoder, name, folder)
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


@pytest.mark.parametrize("golds", ["STS2017.gs", "STS2017.eval.v1.1"])
def test_semeval_as_downloaded(tmp_path, short, golds):
    write_semeval(tmp_path, golds=golds)
    files = [n.split(".")[1] for n in SEMEVAL if not n.startswith("4b")]
    check(tmp_path, files, "sts2017")


def test_gold_scores_of_the_same_folder_go_first(tmp_path, short):
    write_semeval(tmp_path, "b", "b")
    expected = score(tmp_path, [], "sts2017")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "STS.gs.track5.en-en.txt").write_text("1\n2\n")
    assert score(tmp_path, [], "sts2017") == expected


def test_languages_choose_tracks(tmp_path, short):
    write_extended(tmp_path)
    scores = score(tmp_path, ["de", "es"])
    assert [*scores["tracks"]] == ["es-es", "en-en", "en-de", "en-es"]
    scores = score(tmp_path, [])
    assert "cross_lingual" not in scores and scores["primary"] == "monolingual"
    across = score_sts2017(Table(), tmp_path, ["es"], within=False)
    assert "monolingual" not in across and [*across["tracks"]] == ["en-es"]
    with pytest.raises(InputError, match="has the languages ar, de, .*Received: ru"):
        score(tmp_path, ["ru"])


def test_fewer_rows_are_spread_over_a_track(tmp_path):
    write_extended(tmp_path, 250)
    encoder = Table()
    scores = score_sts2017(encoder, tmp_path, ["de"], within=False, rows_at_most=25)
    known = spearman(encoder, made_rows("en-de", 250)[::10])
    assert scores["tracks"] == {"en-de": pytest.approx(known, abs=2e-4)}
    assert scores["pairs"] == 25


def test_missing_tracks_are_all_named(tmp_path):
    write_semeval(tmp_path)
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


def test_the_same_track_twice(tmp_path, short):
    write_ours(tmp_path)
    write_ours(tmp_path, ["ar-en"])  # SemEval's name beside the extension's
    path = tmp_path / "sts" / "sts2017.test.ar-en.tsv.gz"
    path.write_bytes((tmp_path / "sts" / "sts2017.test.en-ar.tsv.gz").read_bytes())
    check(tmp_path, EXTENDED)
    path.write_bytes(gzip.compress(b"1.0\ta\tb\n" * PAIRS))
    with pytest.raises(InputError, match=r"ar-en.*and.*en-ar.*differ. Move away"):
        score(tmp_path)


def test_broken_files(tmp_path, short):
    write_semeval(tmp_path)
    folder = tmp_path / "STS2017.gs"
    (folder / "STS.gs.track1.ar-ar.txt").write_text("1\n2\n")
    with pytest.raises(
        InputError, match="as many lines. Received: .* ends after line 2"
    ):
        score(tmp_path, ["ar"], "sts2017")
    (folder / "STS.gs.track5.en-en.txt").unlink()
    with pytest.raises(InputError, match=r"gold scores, `STS.gs.track5.en-en.txt`"):
        score(tmp_path, [], "sts2017")
    for line, message in (
        ("a\tb\n", "line 1: a row must have 3 .*Received: 2"),
        ("a\tb\t1\na\tb\tx\n", "line 2: a score must be a finite number.*'x'"),
    ):
        (tmp_path / "STS.en-en.txt").write_text(line)
        with pytest.raises(InputError, match=message):
            score(tmp_path, [])
