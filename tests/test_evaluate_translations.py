"""Retrieval of translations against loops and sentence-transformers; its sets."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from small_recipe import write_rows
from table_encoder import ByNumber, Table, cosine

from keras_msd.checks import InputError
from keras_msd.evaluate import (
    mse,
    read_tatoeba,
    retrieval,
    retrieval_languages,
    score_set,
    sts,
    translations,
)
from keras_msd.evaluate.parts import read_parts
from keras_msd.evaluate.rows import asked_sets
from keras_msd.evaluate.translations import find_un, score_un


def brute_force(encoder, queries, sentences):
    """Return how many queries in 100 have their sentence first, or tied before all."""
    sides = [[encoder.vectors[text] for text in it] for it in (queries, sentences)]
    cosines = np.array([[cosine(a, b, 6) for b in sides[1]] for a in sides[0]])
    return 100 * np.mean(cosines.argmax(axis=1) == np.arange(len(queries)))


def check(scores, encoder, pairs):
    sources, targets = [p[0] for p in pairs], [p[1] for p in pairs]
    forward = brute_force(encoder, sources, targets)
    backward = brute_force(encoder, targets, sources)
    assert scores["source_to_target"] == pytest.approx(forward, abs=1e-4)
    assert scores["target_to_source"] == pytest.approx(backward, abs=1e-4)
    assert scores["precision"] == pytest.approx((forward + backward) / 2, abs=1e-4)
    assert scores["pairs"] == len(pairs) and scores["primary"] == "precision"
    return forward, backward


def test_first_of_equal_maxima_wins():
    encoder = Table({"x0": [1, 0], "x1": [1, 0], "y0": [3, 0], "y1": [5, 0]})
    scores = retrieval(encoder, [("x0", "y0"), ("x1", "y1")])
    assert scores["precision"] == 50.0


def test_duplicates_count_as_errors():
    vectors = {"x0": [1, 0, 0], "x1": [0, 1, 0], "y": [1, 1, 0], "x2": [0, 0, 1]}
    encoder = Table(vectors | {"z": [0, 0, 1]})
    pairs = [("x0", "y"), ("x1", "y"), ("x2", "z")]
    scores = retrieval(encoder, pairs)
    # x1's translation is found, but at its first place; y looks like x0 and x1 alike.
    assert scores["source_to_target"] == pytest.approx(200 / 3, abs=1e-4)
    assert scores["target_to_source"] == pytest.approx(200 / 3, abs=1e-4)
    check(scores, encoder, pairs)
    # By text x1's translation is right; y has two, and only the first is found.
    by_text = retrieval(encoder, pairs, match="text")
    assert by_text["source_to_target"] == 100.0
    assert by_text["target_to_source"] == pytest.approx(200 / 3, abs=1e-4)
    with pytest.raises(InputError, match="`match` must be one of 'row', 'text'"):
        retrieval(encoder, pairs, match="index")


def test_random_vectors_over_several_blocks_equal_brute_force(monkeypatch):
    monkeypatch.setattr(sys.modules["keras_msd.evaluate.nearest"], "BLOCK", 7)
    random = np.random.default_rng(3)
    pairs = [(f"s{i % 27}", f"t{i % 29}", "de") for i in range(30)]
    encoder = Table(dim=4)
    for i in range(27):
        base = random.normal(size=4)
        encoder.vectors[f"s{i}"] = base
        encoder.vectors[f"t{i}"] = base + 0.4 * random.normal(size=4)
    scores = retrieval(encoder, pairs)
    assert len(encoder.seen) == len(set(encoder.seen)) == 56
    forward, backward = check(scores, encoder, pairs)
    assert 20 < forward < 95 and 20 < backward < 95 and forward != backward


def test_languages_are_averaged_and_shared_sentences_encoded_once(tmp_path):
    files = {
        "deu": [("hello", "hallo"), ("cat", "Katze"), ("dog", "Hund")],
        "nld": [("hello", "hallo"), ("dog", "hond")],
    }
    for code, rows in files.items():
        write_rows(tmp_path / f"tatoeba.{code}-eng.tsv.gz", rows)
    encoder = Table(dim=2, seed=5)
    scores = score_set(encoder, "tatoeba", tmp_path, ["nld", "deu"])
    assert len(encoder.seen) == len(set(encoder.seen)) == 7
    single = {code: retrieval(encoder, rows) for code, rows in files.items()}
    assert scores["tracks"] == {c: s["precision"] for c, s in single.items()}
    for key in ("precision", "source_to_target", "target_to_source"):
        mean = (single["deu"][key] + single["nld"][key]) / 2
        assert scores[key] == pytest.approx(mean, abs=1e-4)
    assert scores["pairs"] == 5
    assert scores == retrieval_languages(encoder, files)


def test_nothing_to_score_is_an_error():
    with pytest.raises(InputError, match="`pairs` must have a pair"):
        retrieval(Table(), [])
    with pytest.raises(InputError, match="`languages` must be at least 1"):
        retrieval_languages(Table(), {})


GOLDEN = Path(__file__).parent / "golden" / "evaluators"


@pytest.fixture(scope="module")
def golden():
    value = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
    vectors = load_file(GOLDEN / "vectors.safetensors")
    value["student"] = Table(zip(value["texts"], vectors["student"], strict=True))
    value["teacher"] = Table(zip(value["guided"], vectors["teacher"], strict=True))
    return value


def test_similarity_as_sentence_transformers_has_it(golden):
    expected = golden["expected"]["sts"]["spearman_cosine"]
    rows = golden["rows"]
    assert len(set(map(tuple, rows))) < len(rows)  # pairs that occur twice
    scores = sts(golden["student"], rows)
    assert scores["spearman"] / 100 == pytest.approx(expected, abs=1e-6)


def test_translation_as_sentence_transformers_has_it(golden):
    expected = golden["expected"]["translation"]
    scores = retrieval(golden["student"], golden["pairs"], match="text")
    for ours, theirs in {
        "precision": "mean_accuracy",
        "source_to_target": "src2trg_accuracy",
        "target_to_source": "trg2src_accuracy",
    }.items():
        assert scores[ours] / 100 == pytest.approx(expected[theirs], abs=1e-6)
    assert scores["pairs"] == 60 and scores["primary"] == "precision"


def test_mse_as_sentence_transformers_has_it(golden):
    sources, targets = zip(*golden["pairs"], strict=True)
    guides = golden["teacher"].encode(list(sources))
    scores = mse(golden["student"], guides, list(targets))
    expected = golden["expected"]["mse"]["negative_mse"]
    assert scores["negative_mse"] / 100 == pytest.approx(expected / 100, abs=1e-6)
    assert scores["mse"] == -scores[scores["primary"]] and scores["sentences"] == 60


@pytest.mark.parametrize(
    ("guides", "texts", "message"),
    [
        (np.zeros((1, 2)), ["a", "b"], r"teacher \(1, 2\), encoder \(2, 2\)"),
        (np.zeros((2, 3)), ["a", "b"], r"teacher \(2, 3\), encoder \(2, 2\)"),
        (np.full((2, 2), np.nan), ["a", "b"], "Received: NaN or infinity"),
        (np.zeros((0, 2)), [], r"teacher \(0, 2\)"),
    ],
)
def test_mse_of_what_does_not_fit(guides, texts, message):
    class Empty(Table):
        def encode(self, texts):
            return super().encode(texts) if texts else np.zeros((0, 2))

    encoder = Empty({"a": [1, 2], "b": [0, -1]}, dim=2)
    with pytest.raises(InputError, match=message):
        mse(encoder, guides, texts)


def made_pairs(code, pairs=6):
    return [(f"English {i % 5} for {code}", f"{code}\u00a0{i} ") for i in range(pairs)]


def write_laser(folder, code, rows):
    for ending, side in (("eng", 0), (code, 1)):
        lines = [(row[side],) for row in rows]
        write_rows(folder / f"tatoeba.{code}-eng.{ending}", lines)


def write_ours(folder, code, rows):
    write_rows(folder / f"tatoeba.{code}-eng.tsv.gz", rows)


def test_both_layouts_hold_the_same_pairs(tmp_path):
    rows = made_pairs("deu")
    write_laser(tmp_path / "laser", "deu", rows)
    write_ours(tmp_path / "ours", "deu", rows)
    for name in ("laser", "ours", "."):
        assert read_tatoeba(tmp_path / name, ["de"]) == {"deu": rows}
    write_ours(tmp_path / "ours", "deu", rows[:-1])
    assert read_tatoeba(tmp_path) == {"deu": rows[:-1]}, "our layout comes first"


def test_pairs_without_english(tmp_path):
    rows = [("Tee", "thé"), ("Wind", "vent")]
    write_ours(tmp_path, "deu", made_pairs("deu"))
    write_rows(tmp_path / "tatoeba.deu-fra.tsv.gz", rows)
    assert read_tatoeba(tmp_path, ["de-fr"]) == {"deu-fra": rows}
    encoder = Table({word: np.eye(4)[i // 2] for i, word in enumerate(sum(rows, ()))})
    scores = score_set(encoder, "tatoeba", tmp_path, ["deu-fra"])
    assert scores["tracks"] == {"deu-fra": 100.0}
    recipe = {"data": {"languages": ["de"]}, "evaluate": {"sets": ["tatoeba"]}}
    [asked] = asked_sets(recipe)
    others = asked._replace(record=replace(asked.record, folder="")).others(tmp_path)
    assert others.languages == ["deu-fra"]
    with pytest.raises(InputError, match=r"lacks deu-ita.*<xxx>-<yyy>.tsv.gz.*deu-fra"):
        read_tatoeba(tmp_path, ["de-it", "de"])


def test_languages_by_either_code_and_what_is_missing(tmp_path):
    for code in ("deu", "cmn", "swh"):
        write_laser(tmp_path, code, made_pairs(code))
    assert list(read_tatoeba(tmp_path, ["zh", "swh", "sw"])) == ["cmn", "swh"]
    message = r"lacks fra, tur of the Tatoeba .*tatoeba.<xxx>-eng.eng.*Found: cmn, deu"
    with pytest.raises(InputError, match=message):
        read_tatoeba(tmp_path, ["fr", "deu", "tur"])
    with pytest.raises(InputError, match="at least one part"):
        read_tatoeba(tmp_path, [])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="lacks every language .*Found: none"):
        read_tatoeba(tmp_path / "empty")


LINES = [(f"en {number}", f"fr {number}") for number in range(90)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(translations, "STREAMED", 7)


def write_un(folder, pairs, code="fr", packed=""):
    for ending, side in (("en", 0), (code, 1)):
        lines = [(pair[side],) for pair in pairs]
        write_rows(folder / f"UNv1.0.en-{code}.{ending}{packed}", lines)


def score_of_un(folder, languages, encoder=None, **options):
    pairs = read_parts(find_un(folder, languages))
    return score_un(encoder or ByNumber(), pairs, **options)


def test_folder_as_it_unpacks(tmp_path):
    write_un(tmp_path / "en-fr", [*LINES[:40], *LINES[:40:2], *LINES[40:], LINES[3]])
    spanish = [(f"en {number}", f"es {number}") for number in range(30)]
    write_un(tmp_path, spanish, "es", packed=".gz")
    french = retrieval(ByNumber(), LINES)["source_to_target"]
    tracks = {
        "en-fr": french,
        "en-es": retrieval(ByNumber(), spanish)["source_to_target"],
    }
    found = score_of_un(tmp_path, ["fr", "es"])
    assert found["tracks"] == tracks
    assert found["precision"] == round(sum(tracks.values()) / 2, 4)
    assert (found["queries"], found["candidates"]) == (120, 120)
    assert found["primary"] == "precision"


def test_some_queries_among_all_candidates(tmp_path):
    write_un(tmp_path, LINES)
    encoder, rows = ByNumber(), [0, 29, 59, 89]
    found = score_of_un(tmp_path, ["fr"], encoder, queries=4)
    assert encoder.longest == 7, "candidates are never all in memory"
    queries = encoder.encode([LINES[row][0] for row in rows])
    others = encoder.encode([other for _, other in LINES])
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    right = (queries @ others.T).argmax(axis=1) == rows
    assert found["precision"] == 100 * right.mean()
    assert (found["queries"], found["candidates"]) == (4, 90)
    assert score_of_un(tmp_path, ["fr"], queries=1000)["queries"] == 90


def test_mistakes_in_un(tmp_path):
    with pytest.raises(InputError, match="`languages` must be at least 1"):
        score_of_un(tmp_path, [])
    with pytest.raises(InputError, match=r"lacks en-ru.en of the United .*UNv1.0.6way"):
        score_of_un(tmp_path, ["ru"])
    write_un(tmp_path, LINES)
    with pytest.raises(InputError, match="`queries` must be at least 1"):
        score_of_un(tmp_path, ["fr"], queries=0)
    (tmp_path / "UNv1.0.en-fr.fr").write_text("fr 1\n")
    with pytest.raises(InputError, match="must have as many lines"):
        score_of_un(tmp_path, ["fr"])


@pytest.mark.parametrize("stem", ["6way", "es-fr"])
def test_queries_in_another_language(tmp_path, stem):
    for code in ("es", "fr"):
        lines = "".join(f"{code} {number}\n" for number in range(30))
        (tmp_path / f"UNv1.0.{stem}.{code}").write_text(lines)
    pairs = [(f"es {number}", f"fr {number}") for number in range(30)]
    expected = retrieval(ByNumber(), pairs)["source_to_target"]
    assert score_of_un(tmp_path, ["es-fr"])["tracks"] == {"es-fr": expected}
    [part] = find_un(tmp_path, ["es-fr"]).values()
    names = [path.name for path in part.paths]
    assert names == [f"UNv1.0.{stem}.es", f"UNv1.0.{stem}.fr"]
    with pytest.raises(InputError, match="lacks ru-fr.ru of .*Unpack UNv1.0"):
        score_of_un(tmp_path, ["ru-fr"])
