import gzip

import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.evaluate import (
    retrieval,
    translations,
)
from keras_msd.evaluate.parts import read_parts
from keras_msd.evaluate.translations import find_un, score_un


class Drawn:
    """A vector drawn from the number in a sentence, a little off for its language."""

    def __init__(self):
        self.longest = 0

    def encode(self, texts):
        self.longest = max(self.longest, len(texts))
        return np.stack([self.vector(text) for text in texts]).astype(np.float32)

    def vector(self, text):
        language, number = text.split()
        near = np.random.default_rng(int(number)).normal(size=5)
        far = np.random.default_rng([int(number), *language.encode()]).normal(size=5)
        return near + 0.5 * far


PAIRS = [(f"en {number}", f"fr {number}") for number in range(90)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(translations, "STREAMED", 7)


def write(folder, pairs, code="fr", packed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for ending, side in zip(("en", code), zip(*pairs, strict=True), strict=True):
        path = folder / f"UNv1.0.en-{code}.{ending}"
        data = "".join(f"{text}\n" for text in side).encode()
        if packed:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data))
        else:
            path.write_bytes(data)


def score(folder, languages, encoder=None, **options):
    pairs = read_parts(find_un(folder, languages))
    return score_un(encoder or Drawn(), pairs, **options)


def test_candidates_are_never_all_in_memory(tmp_path):
    write(tmp_path, PAIRS)
    encoder = Drawn()
    found = score(tmp_path, ["fr"], encoder, queries=2)
    assert encoder.longest == 7
    sources, targets = zip(*PAIRS, strict=True)
    vectors = encoder.encode(list(targets))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = (encoder.encode([sources[0], sources[89]]) @ vectors.T).argmax(axis=1)
    assert found["precision"] == 50 * (nearest == [0, 89]).sum()
    assert (found["queries"], found["candidates"]) == (2, 90)


def test_folder_as_it_unpacks(tmp_path):
    write(tmp_path / "en-fr", [*PAIRS[:40], *PAIRS[:40:2], *PAIRS[40:], PAIRS[3]])
    spanish = [(f"en {number}", f"es {number}") for number in range(30)]
    write(tmp_path, spanish, "es", packed=True)
    french = retrieval(Drawn(), PAIRS)["source_to_target"]
    tracks = {
        "en-fr": french,
        "en-es": retrieval(Drawn(), spanish)["source_to_target"],
    }
    found = score(tmp_path, ["fr", "es"])
    assert found["tracks"] == tracks
    assert found["precision"] == round(sum(tracks.values()) / 2, 4)
    assert (found["queries"], found["candidates"]) == (120, 120)
    assert found["primary"] == "precision"


def test_some_queries_among_all_candidates(tmp_path):
    write(tmp_path, PAIRS)
    found = score(tmp_path, ["fr"], queries=4)
    encoder, rows = Drawn(), [0, 29, 59, 89]
    queries = encoder.encode([PAIRS[row][0] for row in rows])
    others = encoder.encode([other for _, other in PAIRS])
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    right = (queries @ others.T).argmax(axis=1) == rows
    assert found["precision"] == 100 * right.mean()
    assert (found["queries"], found["candidates"]) == (4, 90)
    assert score(tmp_path, ["fr"], queries=1000)["queries"] == 90


def test_mistakes(tmp_path):
    with pytest.raises(InputError, match="`languages` must be at least 1"):
        score(tmp_path, [])
    with pytest.raises(InputError, match=r"must hold UNv1.0.en-ru.en and UNv1.0.en-ru"):
        score(tmp_path, ["ru"])
    write(tmp_path, PAIRS)
    with pytest.raises(InputError, match="`queries` must be at least 1"):
        score(tmp_path, ["fr"], queries=0)
    (tmp_path / "UNv1.0.en-fr.fr").write_text("fr 1\n")
    with pytest.raises(InputError, match="must have as many lines"):
        score(tmp_path, ["fr"])


@pytest.mark.parametrize("place", [".", "6way"])
def test_the_six_way_release(tmp_path, place):
    write(tmp_path / "a", PAIRS[:20])
    (tmp_path / place).mkdir(exist_ok=True)
    for ending in ("en", "fr"):
        file = tmp_path / "a" / f"UNv1.0.en-fr.{ending}"
        file.rename(tmp_path / place / f"UNv1.0.6way.{ending}")
    write(tmp_path / "b", PAIRS[:20])
    expected = score(tmp_path / "b", ["fr"])
    assert score(tmp_path, ["fr"]) == expected


@pytest.mark.parametrize("stem", ["6way", "es-fr"])
def test_queries_in_another_language(tmp_path, stem):
    for code in ("es", "fr"):
        lines = "".join(f"{code} {number}\n" for number in range(30))
        (tmp_path / f"UNv1.0.{stem}.{code}").write_text(lines)
    pairs = [(f"es {number}", f"fr {number}") for number in range(30)]
    expected = retrieval(Drawn(), pairs)["source_to_target"]
    assert score(tmp_path, ["es-fr"])["tracks"] == {"es-fr": expected}
    [part] = find_un(tmp_path, ["es-fr"]).values()
    names = [path.name for path in part.paths]
    assert names == [f"UNv1.0.{stem}.es", f"UNv1.0.{stem}.fr"]
    with pytest.raises(InputError, match=r"UNv1.0.ru-fr.ru and .*no file .* in `ru`"):
        score(tmp_path, ["ru-fr"])
