import gzip

import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.evaluate import (
    retrieval,
    retrieval_streamed,
    translations,
)
from keras_msd.evaluate.translations import score_un


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


def test_a_stream_scores_as_a_list(tmp_path):
    queries, others = zip(*PAIRS, strict=True)
    whole = retrieval(Drawn(), PAIRS)
    assert 20 < whole["source_to_target"] < 95
    blocks = (list(others[start : start + 11]) for start in range(0, 90, 11))
    expected = {
        "precision": whole["source_to_target"], "queries": 90, "candidates": 90,
        "primary": "precision",
    }  # fmt: skip
    assert retrieval_streamed(Drawn(), queries, blocks) == expected
    (tmp_path / "fr.txt").write_text("".join(f"{text}\n" for text in others))
    assert retrieval_streamed(Drawn(), queries, tmp_path / "fr.txt") == expected


def test_candidates_are_never_all_in_memory(tmp_path):
    (tmp_path / "fr.txt").write_text("".join(f"{other}\n" for _, other in PAIRS))
    encoder = Drawn()
    queries, gold = ["en 50", "en 8"], np.array([50, 8])
    found = retrieval_streamed(encoder, queries, str(tmp_path / "fr.txt"), gold)
    assert encoder.longest == 7
    vectors = encoder.encode([other for _, other in PAIRS])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = (encoder.encode(queries) @ vectors.T).argmax(axis=1)
    assert found["precision"] == 50 * (nearest == gold).sum()
    assert (found["queries"], found["candidates"]) == (2, 90)


def test_the_first_copy_is_the_answer():
    texts = ["fr 1", "fr 2", "fr 2"]
    found = retrieval_streamed(Drawn(), texts, [["fr 1", "fr 2"], [], ["fr 2"]])
    assert found["precision"] == 66.6667


def test_folder_as_it_unpacks(tmp_path):
    write(tmp_path / "en-fr", [*PAIRS[:40], *PAIRS[:40:2], *PAIRS[40:], PAIRS[3]])
    spanish = [(f"en {number}", f"es {number}") for number in range(30)]
    write(tmp_path, spanish, "es", packed=True)
    french = retrieval(Drawn(), PAIRS)["source_to_target"]
    tracks = {
        "en-fr": french,
        "en-es": retrieval(Drawn(), spanish)["source_to_target"],
    }
    found = score_un(Drawn(), tmp_path, ["fr", "es"])
    assert found["tracks"] == tracks
    assert found["precision"] == round(sum(tracks.values()) / 2, 4)
    assert (found["queries"], found["candidates"]) == (120, 120)
    assert found["primary"] == "precision"


def test_some_queries_among_all_candidates(tmp_path):
    write(tmp_path, PAIRS)
    found = score_un(Drawn(), tmp_path, ["fr"], queries=4)
    rows = [0, 29, 59, 89]
    queries, others = [PAIRS[row][0] for row in rows], [b for _, b in PAIRS]
    expected = retrieval_streamed(Drawn(), queries, [others], rows)
    assert found["precision"] == expected["precision"]
    assert (found["queries"], found["candidates"]) == (4, 90)
    assert score_un(Drawn(), tmp_path, ["fr"], queries=1000)["queries"] == 90


def test_mistakes(tmp_path):
    with pytest.raises(InputError, match="`queries` must be at least 1"):
        retrieval_streamed(Drawn(), [], [["fr 1"]])
    with pytest.raises(InputError, match="row 1 of 1 candidates"):
        retrieval_streamed(Drawn(), ["en 1", "en 2"], [["fr 1"]])
    with pytest.raises(InputError, match="row -1 of 1 candidates"):
        retrieval_streamed(Drawn(), ["en 1"], [["fr 1"]], [-1])
    with pytest.raises(InputError, match=r"`gold` must name.*shape \(1,\).*2 queries"):
        retrieval_streamed(Drawn(), ["en 1", "en 2"], [["fr 1"]], [0])
    with pytest.raises(InputError, match="must be a list of sentences"):
        retrieval_streamed(Drawn(), ["en 1"], ["fr 1"])
    with pytest.raises(InputError, match="at least one vector"):
        retrieval_streamed(Drawn(), ["en 1"], [])
    with pytest.raises(InputError, match="`none.txt` does not exist"):
        retrieval_streamed(Drawn(), ["en 1"], "none.txt")
    with pytest.raises(InputError, match="at least one language"):
        score_un(Drawn(), tmp_path, [])
    with pytest.raises(InputError, match=r"must hold UNv1.0.en-ru.en and UNv1.0.en-ru"):
        score_un(Drawn(), tmp_path, ["ru"])
    write(tmp_path, PAIRS)
    with pytest.raises(InputError, match="`queries` must be at least 1"):
        score_un(Drawn(), tmp_path, ["fr"], queries=0)
    (tmp_path / "UNv1.0.en-fr.fr").write_text("fr 1\n")
    with pytest.raises(InputError, match="must have as many lines"):
        score_un(Drawn(), tmp_path, ["fr"])


@pytest.mark.parametrize("place", [".", "6way"])
def test_the_six_way_release(tmp_path, place):
    write(tmp_path / "a", PAIRS[:20])
    (tmp_path / place).mkdir(exist_ok=True)
    for ending in ("en", "fr"):
        file = tmp_path / "a" / f"UNv1.0.en-fr.{ending}"
        file.rename(tmp_path / place / f"UNv1.0.6way.{ending}")
    write(tmp_path / "b", PAIRS[:20])
    expected = score_un(Drawn(), tmp_path / "b", ["fr"])
    assert score_un(Drawn(), tmp_path, ["fr"]) == expected


@pytest.mark.parametrize("stem", ["6way", "es-fr"])
def test_queries_in_another_language(tmp_path, stem):
    for code in ("es", "fr"):
        lines = "".join(f"{code} {number}\n" for number in range(30))
        (tmp_path / f"UNv1.0.{stem}.{code}").write_text(lines)
    pairs = [(f"es {number}", f"fr {number}") for number in range(30)]
    expected = retrieval(Drawn(), pairs)["source_to_target"]
    assert score_un(Drawn(), tmp_path, ["es-fr"])["tracks"] == {"es-fr": expected}
    names = [path.name for path in translations.un_files(tmp_path, ["es-fr"])]
    assert names == [f"UNv1.0.{stem}.es", f"UNv1.0.{stem}.fr"]
    with pytest.raises(InputError, match=r"UNv1.0.ru-fr.ru and .*no file .* in `ru`"):
        score_un(Drawn(), tmp_path, ["ru-fr"])
